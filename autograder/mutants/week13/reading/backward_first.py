"""Wrong: receives in the other order."""

reading_answers = {"main_steps": 6, "weights_in": "WeightGradStore"}
reading_answers["order"] = ["_recv_backward", "_recv_forward", "_commit_and_wait_comm"]
reading_answers["order"] += ["_forward_backward_compute_chunk", "_send_forward", "_send_backward"]
