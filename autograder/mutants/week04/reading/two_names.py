"""Wrong: two names."""

reading_answers = {
    "ranks_of_the_backward": 8,
    "records": "_record_post_forward",
    "order": ["reshard", "foreach_reduce"],
}
