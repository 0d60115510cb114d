"""Wrong: names the list."""

reading_answers = {
    "ranks_of_the_backward": 8,
    "records": "post_forward_order",
    "order": ["accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"],
}
