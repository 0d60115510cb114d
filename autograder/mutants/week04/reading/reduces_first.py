"""Wrong: reduces before it frees."""

reading_answers = {
    "ranks_of_the_backward": 8,
    "records": "_record_post_forward",
    "order": ["accumulate_unsharded_grad_if_needed", "foreach_reduce", "reshard"],
}
