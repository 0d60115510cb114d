"""Wrong: what ours does."""

reading_answers = {
    "on_the_way": 2,
    "params_by": "all_gather",
    "order": ["reduce_scatter", "all_reduce", "all_gather"],
}
