"""Different: with spaces, a list and the name as it is called."""

reading_answers = {
    "on_the_way": 2,
    "params_by": "broadcast",
    "order": ["reduce scatter", "all reduce", "all gather"],
}
