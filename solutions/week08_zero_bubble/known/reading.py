# %% right_one_by_one
"""Different: a plain copy with other quotes and a list comprehension."""

answers = [("order", [name for name in ("take", "input_gradient", "put")]), ("weights_by", ["autograd", "grad"][1])]
reading_answers = dict(answers, late_cuts=1)

# %% right_other_spelling
"""Different: names with their modules, a tuple for a list."""

reading_answers = {"late_cuts": 3 - 2}
reading_answers["weights_by"] = "torch.autograd.grad"
reading_answers["order"] = ("take()", "Input_Gradient", "put()")

# %% all_cuts
"""Wrong: counts the cuts of the tied layer too."""

reading_answers = {"late_cuts": 3, "weights_by": "grad", "order": ["take", "input_gradient", "put"]}

# %% backward
"""Wrong: names the function that would have fired the hooks."""

reading_answers = {"late_cuts": 1, "weights_by": "backward", "order": ["take", "input_gradient", "put"]}

# %% put_first
"""Wrong: the result before it is computed."""

reading_answers = {"late_cuts": 1, "weights_by": "grad", "order": ["put", "input_gradient", "take"]}

# %% true_for_one
"""Wrong: True is no number of cuts."""

reading_answers = {"late_cuts": True, "weights_by": "grad", "order": ["take", "input_gradient", "put"]}

# %% two_cuts
"""Wrong: counts tied weights once instead of leaving them out."""

reading_answers = {"late_cuts": 2, "weights_by": "grad", "order": ["take", "input_gradient", "put"]}

# %% unanswered
"""Wrong: nothing filled in."""

reading_answers = {"late_cuts": None, "weights_by": None, "order": None}

# %% whole_backward
"""Wrong: the stage method of a full backward."""

reading_answers = {"late_cuts": 1, "weights_by": "grad", "order": ["take", "backward", "put"]}
