"""Different: filled in later."""

reading_answers = {}
reading_answers["weights_in"] = " WeightGradStore "
reading_answers["main_steps"] = 3 + 3
reading_answers["order"] = ["_recv_forward", "_recv_backward", "_commit_and_wait_comm"]
reading_answers["order"] += ["_forward_backward_compute_chunk", "_send_forward", "_send_backward"]
