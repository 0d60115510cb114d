"""Wrong: names what is inside the class."""

reading_answers = {"main_steps": 6, "weights_in": "funcs_queue"}
reading_answers["order"] = ["_recv_forward", "_recv_backward", "_commit_and_wait_comm"]
reading_answers["order"] += ["_forward_backward_compute_chunk", "_send_forward", "_send_backward"]
