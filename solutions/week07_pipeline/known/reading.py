# %% right_computed
"""Different: the number is computed, the answers are filled in one by one."""

reading_answers = dict(forwards_first=min(32, 8 - 2))
reading_answers["divides"] = "forward_step" + "_calc_loss"
reading_answers["order"] = ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"]

# %% right_other_spelling
"""Different: brackets, a module before a name, and a tuple."""

reading_answers = {
    "forwards_first": 6,
    "divides": "forward_step_calc_loss()",
    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
}

# %% all_microbatches of="right_other_spelling"
"""Wrong: GPipe's number of forwards."""

# -    "forwards_first": 6,
# -    "divides": "forward_step_calc_loss()",
# -    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
# +    "forwards_first": 32,
# +    "divides": "forward_step_calc_loss",
# +    "order": ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"],

# %% counts_from_the_first of="right_other_spelling"
"""Wrong: the first rank's number."""

# -    "forwards_first": 6,
# -    "divides": "forward_step_calc_loss()",
# -    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
# +    "forwards_first": 8,
# +    "divides": "forward_step_calc_loss",
# +    "order": ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"],

# %% forward_first of="right_other_spelling"
"""Wrong: one turn of the loop does not begin with the forward's messages."""

# -    "divides": "forward_step_calc_loss()",
# -    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
# +    "divides": "forward_step_calc_loss",
# +    "order": ["bwd_send_fwd_recv", "forward_one_chunk", "fwd_send_bwd_recv", "backward_one_chunk"],

# %% names_the_caller of="right_other_spelling"
"""Wrong: the function that calls it."""

# -    "divides": "forward_step_calc_loss()",
# -    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
# +    "divides": "forward_step",
# +    "order": ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"],

# %% names_torchs_method of="right_other_spelling"
"""Wrong: the method of torch's stage, not Megatron's function."""

# -    "divides": "forward_step_calc_loss()",
# -    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
# +    "divides": "scale_grads",
# +    "order": ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"],

# %% sends_apart of="right_other_spelling"
"""Wrong: sends and receives one after the other, which would hang."""

# -    "divides": "forward_step_calc_loss()",
# -    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
# +    "divides": "forward_step_calc_loss",
# +    "order": ["fwd_send", "bwd_recv", "backward_one_chunk", "bwd_send"],

# %% the_papers_warm_up of="right_other_spelling"
"""Wrong: the paper's warm-up, P-1-r."""

# -    "forwards_first": 6,
# -    "divides": "forward_step_calc_loss()",
# -    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
# +    "forwards_first": 5,
# +    "divides": "forward_step_calc_loss",
# +    "order": ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"],

# %% unanswered of="right_other_spelling"
"""Wrong: the cell as it was handed out."""

# -    "forwards_first": 6,
# -    "divides": "forward_step_calc_loss()",
# -    "order": ("fwd_send_bwd_recv", "self.backward_one_chunk()", "bwd_send_fwd_recv", "Forward_One_Chunk"),
# +    "forwards_first": None,
# +    "divides": None,
# +    "order": None,
