"""Wrong: clips before it has the gradients."""

reading_answers = {
    "on_the_way": 2,
    "params_by": "broadcast",
    "order": ["all_reduce", "reduce_scatter", "all_gather"],
}
