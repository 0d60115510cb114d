"""Wrong: the first rank's number."""

reading_answers = {
    "forwards_first": 8,
    "divides": "forward_step_calc_loss",
    "order": ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"],
}
