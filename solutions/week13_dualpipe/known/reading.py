# %% right_one_dict
"""Different: filled in later."""

reading_answers = {}
reading_answers["weights_in"] = " WeightGradStore "
reading_answers["main_steps"] = 3 + 3
reading_answers["order"] = ["_recv_forward", "_recv_backward", "_commit_and_wait_comm"]
reading_answers["order"] += ["_forward_backward_compute_chunk", "_send_forward", "_send_backward"]

# %% half_of_the_ranks of="right_one_dict"
"""Wrong: takes half of the ranks away, not all."""

# -reading_answers = {}
# -reading_answers["weights_in"] = " WeightGradStore "
# -reading_answers["main_steps"] = 3 + 3
# +reading_answers = {"main_steps": 10, "weights_in": "WeightGradStore"}

# %% other_rank of="right_one_dict"
"""Wrong: step 4 of rank 0."""

# -reading_answers = {}
# -reading_answers["weights_in"] = " WeightGradStore "
# -reading_answers["main_steps"] = 3 + 3
# +reading_answers = {"main_steps": 3, "weights_in": "WeightGradStore"}

# %% queue of="right_one_dict"
"""Wrong: names what is inside the class."""

# -reading_answers = {}
# -reading_answers["weights_in"] = " WeightGradStore "
# -reading_answers["main_steps"] = 3 + 3
# +reading_answers = {"main_steps": 6, "weights_in": "funcs_queue"}

# %% right_self_in_front
"""Different: methods as they are called, and a computed number."""

order = "recv_forward recv_backward commit_and_wait_comm forward_backward_compute_chunk send_forward send_backward"
reading_answers = {
    "main_steps": 20 // 2 - 8 + min(3, 8 - 1 - 3) + 1,
    "weights_in": "weightgradstore",
    "order": tuple(f"self._{name}()" for name in order.split()),
}

# %% unanswered
"""Wrong: nothing filled in."""

reading_answers = {"main_steps": None, "weights_in": None, "order": None}

# %% backward_first of="unanswered"
"""Wrong: receives in the other order."""

# -reading_answers = {"main_steps": None, "weights_in": None, "order": None}
# +reading_answers = {"main_steps": 6, "weights_in": "WeightGradStore"}
# +reading_answers["order"] = ["_recv_backward", "_recv_forward", "_commit_and_wait_comm"]
# +reading_answers["order"] += ["_forward_backward_compute_chunk", "_send_forward", "_send_backward"]

# %% computes_before_waiting of="unanswered"
"""Wrong: computes before anything has arrived."""

# -reading_answers = {"main_steps": None, "weights_in": None, "order": None}
# +reading_answers = {"main_steps": 6, "weights_in": "WeightGradStore"}
# +reading_answers["order"] = ["_recv_forward", "_recv_backward", "_forward_backward_compute_chunk"]
# +reading_answers["order"] += ["_commit_and_wait_comm", "_send_forward", "_send_backward"]
