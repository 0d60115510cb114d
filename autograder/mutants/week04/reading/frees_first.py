"""Wrong: frees before it takes the gradients."""

reading_answers = {
    "ranks_of_the_backward": 8,
    "records": "_record_post_forward",
    "order": ["reshard", "accumulate_unsharded_grad_if_needed", "foreach_reduce"],
}
