"""Wrong: step 4 of rank 0."""

reading_answers = {"main_steps": 3, "weights_in": "WeightGradStore"}
reading_answers["order"] = ["_recv_forward", "_recv_backward", "_commit_and_wait_comm"]
reading_answers["order"] += ["_forward_backward_compute_chunk", "_send_forward", "_send_backward"]
