# %% right_computed
"""Different: computed."""

reading_answers = {
    "ranks_of_the_backward": 64 // 8,
    "records": "_record_post_forward",
    "order": ["accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"],
}

# %% all_ranks of="right_computed"
"""Wrong: all ranks of the mesh."""

# -    "ranks_of_the_backward": 64 // 8,
# +    "ranks_of_the_backward": 64,

# %% names_the_caller of="right_computed"
"""Wrong: names the caller."""

# -    "ranks_of_the_backward": 64 // 8,
# -    "records": "_record_post_forward",
# +    "ranks_of_the_backward": 8,
# +    "records": "post_forward",

# %% names_the_list of="right_computed"
"""Wrong: names the list."""

# -    "ranks_of_the_backward": 64 // 8,
# -    "records": "_record_post_forward",
# +    "ranks_of_the_backward": 8,
# +    "records": "post_forward_order",

# %% names_the_prefetch of="right_computed"
"""Wrong: names the reader of the order."""

# -    "ranks_of_the_backward": 64 // 8,
# -    "records": "_record_post_forward",
# +    "ranks_of_the_backward": 8,
# +    "records": "_backward_prefetch",

# %% number_of_groups of="right_computed"
"""Wrong: how many such groups there are, over 8 and not of 8."""

# -    "ranks_of_the_backward": 64 // 8,
# +    "ranks_of_the_backward": [8],

# %% right_text_for_a_number of="right_computed"
"""Different: a number as text."""

# -    "ranks_of_the_backward": 64 // 8,
# +    "ranks_of_the_backward": "8",

# %% unanswered of="right_computed"
"""Wrong: nothing answered."""

# -    "ranks_of_the_backward": 64 // 8,
# -    "records": "_record_post_forward",
# -    "order": ["accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"],
# +    "ranks_of_the_backward": None,
# +    "records": None,
# +    "order": None,

# %% right_other_spelling
"""Different: with self., brackets and a tuple."""

reading_answers = {
    "ranks_of_the_backward": 8,
    "records": "self._record_post_forward()",
    "order": ("accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"),
}

# %% frees_first of="right_other_spelling"
"""Wrong: frees before it takes the gradients."""

# -    "records": "self._record_post_forward()",
# -    "order": ("accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"),
# +    "records": "_record_post_forward",
# +    "order": ["reshard", "accumulate_unsharded_grad_if_needed", "foreach_reduce"],

# %% reduces_first of="right_other_spelling"
"""Wrong: reduces before it frees."""

# -    "records": "self._record_post_forward()",
# -    "order": ("accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"),
# +    "records": "_record_post_forward",
# +    "order": ["accumulate_unsharded_grad_if_needed", "foreach_reduce", "reshard"],

# %% two_names of="right_other_spelling"
"""Wrong: two names."""

# -    "records": "self._record_post_forward()",
# -    "order": ("accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"),
# +    "records": "_record_post_forward",
# +    "order": ["reshard", "foreach_reduce"],
