"""Wrong: the order of ZeRO-3."""

reading_answers = {
    "on_the_way": 2,
    "params_by": "broadcast",
    "order": ["all_gather", "reduce_scatter", "all_reduce"],
}
