"""Wrong: the function for each forward, not for the start."""

reading_answers = {
    "first_bucket": 2**20,
    "at_the_start": "_sync_buffers",
    "order": ["to", "div_", "all_reduce", "copy_"],
}
