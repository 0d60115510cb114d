"""Wrong: counts the bucket that is being filled."""

reading_answers = {
    "on_the_way": 3,
    "params_by": "broadcast",
    "order": ["reduce_scatter", "all_reduce", "all_gather"],
}
