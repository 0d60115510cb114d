"""Wrong: one turn of the loop does not begin with the forward's messages."""

reading_answers = {
    "forwards_first": 6,
    "divides": "forward_step_calc_loss",
    "order": ["bwd_send_fwd_recv", "forward_one_chunk", "fwd_send_bwd_recv", "backward_one_chunk"],
}
