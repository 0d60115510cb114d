"""Different: with self., brackets and a tuple."""

reading_answers = {
    "ranks_of_the_backward": 8,
    "records": "self._record_post_forward()",
    "order": ("accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"),
}
