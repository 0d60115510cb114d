"""Wrong: computes before anything has arrived."""

reading_answers = {"main_steps": 6, "weights_in": "WeightGradStore"}
reading_answers["order"] = ["_recv_forward", "_recv_backward", "_forward_backward_compute_chunk"]
reading_answers["order"] += ["_commit_and_wait_comm", "_send_forward", "_send_backward"]
