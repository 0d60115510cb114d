"""Different: the number is computed, the answers are filled in one by one."""

reading_answers = dict(forwards_first=min(32, 8 - 2))
reading_answers["divides"] = "forward_step" + "_calc_loss"
reading_answers["order"] = ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"]
