"""Different: with dashes and a module."""

reading_answers = {
    "on_the_way": 2,
    "params_by": "dist.broadcast()",
    "order": ("Reduce-Scatter", "All-Reduce", "All-Gather"),
}
