"""Wrong: bucket_cap_mb instead of the first bucket."""

reading_answers = {
    "first_bucket": 25 * 2**20,
    "at_the_start": "_sync_module_states",
    "order": ["to", "div_", "all_reduce", "copy_"],
}
