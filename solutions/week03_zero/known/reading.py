# %% right_in_words
"""Different: with spaces, a list and the name as it is called."""

reading_answers = {
    "on_the_way": 2,
    "params_by": "broadcast",
    "order": ["reduce scatter", "all reduce", "all gather"],
}

# %% all_buckets of="right_in_words"
"""Wrong: no limit."""

# -    "on_the_way": 2,
# +    "on_the_way": None,

# -    "order": ["reduce scatter", "all reduce", "all gather"],
# +    "order": ["reduce_scatter", "all_reduce", "all_gather"],

# %% counts_the_one_that_fills of="right_in_words"
"""Wrong: counts the bucket that is being filled."""

# -    "on_the_way": 2,
# +    "on_the_way": 3,

# -    "order": ["reduce scatter", "all reduce", "all gather"],
# +    "order": ["reduce_scatter", "all_reduce", "all_gather"],

# %% gathers_before_it_reduces of="right_in_words"
"""Wrong: the order of ZeRO-3."""

# -    "order": ["reduce scatter", "all reduce", "all gather"],
# +    "order": ["all_gather", "reduce_scatter", "all_reduce"],

# %% gathers_params of="right_in_words"
"""Wrong: what ours does."""

# -    "params_by": "broadcast",
# -    "order": ["reduce scatter", "all reduce", "all gather"],
# +    "params_by": "all_gather",
# +    "order": ["reduce_scatter", "all_reduce", "all_gather"],

# %% no_clipping of="right_in_words"
"""Wrong: leaves the norm out."""

# -    "order": ["reduce scatter", "all reduce", "all gather"],
# +    "order": ["reduce_scatter", "all_gather"],

# %% norm_first of="right_in_words"
"""Wrong: clips before it has the gradients."""

# -    "order": ["reduce scatter", "all reduce", "all gather"],
# +    "order": ["all_reduce", "reduce_scatter", "all_gather"],

# %% right_other_spelling
"""Different: with dashes and a module."""

reading_answers = {
    "on_the_way": 2,
    "params_by": "dist.broadcast()",
    "order": ("Reduce-Scatter", "All-Reduce", "All-Gather"),
}
