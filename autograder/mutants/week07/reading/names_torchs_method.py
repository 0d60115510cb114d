"""Wrong: the method of torch's stage, not Megatron's function."""

reading_answers = {
    "forwards_first": 6,
    "divides": "scale_grads",
    "order": ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"],
}
