"""Wrong: divides after the all-reduce."""

reading_answers = {
    "first_bucket": 2**20,
    "at_the_start": "_sync_module_states",
    "order": ["to", "all_reduce", "div_", "copy_"],
}
