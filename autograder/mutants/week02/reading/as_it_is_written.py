"""Wrong: in the order of the text: the closure is written before it is called."""

reading_answers = {
    "first_bucket": 2**20,
    "at_the_start": "_sync_module_states",
    "order": ["to", "div_", "copy_", "all_reduce"],
}
