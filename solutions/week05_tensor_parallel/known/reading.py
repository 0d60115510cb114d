# %% right_in_words
"""Different: with self., a list built up."""

reading_answers = {"f": "_CopyToModelParallelRegion", "loss": 1 + 1 + 1}
reading_answers["order"] = ["all_reduce"]
reading_answers["order"] += ["grad_weight", "wait()"]

# %% right_other_spelling
"""Different: module names, brackets, a tuple."""

reading_answers = {
    "f": "_copytomodelparallelregion",
    "loss": 3,
    "order": ("torch.distributed.all_reduce", "grad_weight", "wait"),
}

# %% g_for_f of="right_other_spelling"
"""Wrong: the other operator."""

# -    "f": "_copytomodelparallelregion",
# +    "f": "_ReduceFromModelParallelRegion",

# %% the_function of="right_other_spelling"
"""Wrong: the function that applies it."""

# -    "f": "_copytomodelparallelregion",
# +    "f": "copy_to_tensor_model_parallel_region",

# %% two_reductions of="right_other_spelling"
"""Wrong: forgets the maximum."""

# -    "loss": 3,
# +    "loss": 2,

# %% waits_first of="right_other_spelling"
"""Wrong: waits before the weight's gradient."""

# -    "order": ("torch.distributed.all_reduce", "grad_weight", "wait"),
# +    "order": ("all_reduce", "wait", "grad_weight"),

# %% weights_first of="right_other_spelling"
"""Wrong: the weight's gradient first."""

# -    "order": ("torch.distributed.all_reduce", "grad_weight", "wait"),
# +    "order": ("grad_weight", "all_reduce", "wait"),

# %% a_text_for_a_number of="right_other_spelling"
"""Wrong: a text for the number."""

# -    "loss": 3,
# +    "loss": "three",

# %% unanswered
"""Wrong: as released."""

reading_answers = {"f": None, "loss": None, "order": None}
