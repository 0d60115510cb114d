"""Wrong: the function that calls it."""

reading_answers = {
    "forwards_first": 6,
    "divides": "forward_step",
    "order": ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"],
}
