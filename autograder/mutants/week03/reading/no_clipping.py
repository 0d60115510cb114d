"""Wrong: leaves the norm out."""

reading_answers = {
    "on_the_way": 2,
    "params_by": "broadcast",
    "order": ["reduce_scatter", "all_gather"],
}
