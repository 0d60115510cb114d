"""Wrong: names the reader of the order."""

reading_answers = {
    "ranks_of_the_backward": 8,
    "records": "_backward_prefetch",
    "order": ["accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"],
}
