"""Wrong: sends and receives one after the other, which would hang."""

reading_answers = {
    "forwards_first": 6,
    "divides": "forward_step_calc_loss",
    "order": ["fwd_send", "bwd_recv", "backward_one_chunk", "bwd_send"],
}
