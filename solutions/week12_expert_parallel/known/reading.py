# %% right_filled_in
"""Different: filled in line by line, in another spelling."""

reading_answers = {}
reading_answers["kept"] = "input split sizes"
reading_answers["scatters"] = 2 + 2
reading_answers["order"] = ("self.preprocess()", "self.dispatch()", "self.routed_experts_compute()", "self.combine()")

# %% right_one_dict
"""Different: one dict."""

reading_answers = {
    "kept": "input_split_sizes",
    "scatters": 4,
    "order": ["preprocess", "dispatch", "routed_experts_compute", "combine"],
}

# %% not_swapped of="right_one_dict"
"""Wrong: the list of the same name."""

# -    "kept": "input_split_sizes",
# +    "kept": "output_split_sizes",

# %% the_size of="right_one_dict"
"""Wrong: the size of the input."""

# -    "kept": "input_split_sizes",
# +    "kept": "input",

# %% one_scatter of="right_one_dict"
"""Wrong: its own alone."""

# -    "scatters": 4,
# +    "scatters": 1,

# %% others_alone of="right_one_dict"
"""Wrong: the others' alone."""

# -    "scatters": 4,
# +    "scatters": 3,

# %% each_pair of="right_one_dict"
"""Wrong: one for each pair."""

# -    "scatters": 4,
# +    "scatters": 16,

# %% as_asked of="right_one_dict"
"""Wrong: in the order of the question."""

# -    "order": ["preprocess", "dispatch", "routed_experts_compute", "combine"],
# +    "order": ["combine", "dispatch", "preprocess", "routed_experts_compute"],

# %% dispatches_first of="right_one_dict"
"""Wrong: dispatches before it has prepared."""

# -    "order": ["preprocess", "dispatch", "routed_experts_compute", "combine"],
# +    "order": ["dispatch", "preprocess", "routed_experts_compute", "combine"],

# %% unanswered of="right_one_dict"
"""Wrong: nothing is answered."""

# -    "kept": "input_split_sizes",
# -    "scatters": 4,
# -    "order": ["preprocess", "dispatch", "routed_experts_compute", "combine"],
# +    "kept": None,
# +    "scatters": None,
# +    "order": None,
