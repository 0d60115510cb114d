"""Wrong: no limit."""

reading_answers = {
    "on_the_way": None,
    "params_by": "broadcast",
    "order": ["reduce_scatter", "all_reduce", "all_gather"],
}
