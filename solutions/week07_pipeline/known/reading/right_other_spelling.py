"""Different: brackets, a module before a name, and a tuple."""

reading_answers = {
    "forwards_first": 6,
    "divides": "forward_step_calc_loss()",
    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
}
