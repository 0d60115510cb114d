# %% right_fractions
"""Different: fractions."""


def ten_and_eight():
    return 5 / 9, 15 / 17


# %% all_hidden of="right_fractions"
"""Wrong: all compute as the window: the forward hides nothing, for there is no gradient yet."""

# -    return 5 / 9, 15 / 17
# +    return 10 / 18, 1.0

# %% exposed of="right_fractions"
"""Wrong: what is lost."""

# -    return 5 / 9, 15 / 17
# +    return 8 / 18, 2 / 17

# %% forward_is_the_window of="right_fractions"
"""Wrong: the forward as the window."""

# -    return 5 / 9, 15 / 17
# +    return 10 / 18, 10 / (18 - 10 / 3)

# %% half_is_backward of="right_fractions"
"""Wrong: a backward as long as a forward."""

# -    return 5 / 9, 15 / 17
# +    return 10 / 18, 10 / 13

# %% swapped of="right_fractions"
"""Wrong: the wrong way round."""

# -    return 5 / 9, 15 / 17
# +    return 15 / 17, 5 / 9

# %% the_seeds_number of="right_fractions"
"""Wrong: the same without and with overlap."""

# -    return 5 / 9, 15 / 17
# +    return 10 / 18, 10 / 18

# %% right_from_the_formula
"""Different: computed."""


def ten_and_eight():
    return 10 / 18, 10 / (10 + max(0, 8 - 20 / 3))
