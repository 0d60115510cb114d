"""Wrong: names the caller."""

reading_answers = {
    "ranks_of_the_backward": 8,
    "records": "post_forward",
    "order": ["accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"],
}
