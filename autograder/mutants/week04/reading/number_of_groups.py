"""Wrong: how many such groups there are, over 8 and not of 8."""

reading_answers = {
    "ranks_of_the_backward": [8],
    "records": "_record_post_forward",
    "order": ["accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"],
}
