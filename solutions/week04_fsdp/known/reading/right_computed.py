"""Different: computed."""

reading_answers = {
    "ranks_of_the_backward": 64 // 8,
    "records": "_record_post_forward",
    "order": ["accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"],
}
