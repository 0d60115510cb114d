# %% right_rounded
"""Different: a tuple of rounded numbers."""


def ep_or_tp():
    return 176.2e6, 234.9e6, 9, 3072, 176


# %% right_step_by_step
"""Different: gathered and scattered parts one by one."""


def ep_or_tp():
    gpus, tokens, k, h, width = 8, 4096, 6, 2048, 1408
    row = 2 * h
    dispatch = tokens * k * row * (gpus - 1) // gpus
    gathered = (gpus - 1) * tokens * row
    least = 1
    while 2 * tokens * least * row * (gpus - 1) / gpus <= 2 * gathered:
        least += 1
    return [2 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]


# %% one_way of="right_step_by_step"
"""Wrong: dispatch without combine."""

# -    return [2 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]
# +    return [dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]

# %% step of="right_step_by_step"
"""Wrong: a whole step, not a forward."""

# -    return [2 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]
# +    return [4 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]

# %% all_leave of="right_step_by_step"
"""Wrong: what stays at home travels too."""

# -    dispatch = tokens * k * row * (gpus - 1) // gpus
# +    dispatch = tokens * k * row

# %% k_forgotten of="right_step_by_step"
"""Wrong: one copy of a token."""

# -    dispatch = tokens * k * row * (gpus - 1) // gpus
# +    dispatch = tokens * row * (gpus - 1) // gpus

# %% gather_alone of="right_step_by_step"
"""Wrong: an all-gather without the reduce-scatter."""

# -    return [2 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]
# +    return [2 * dispatch, gathered, least, tokens * gpus * k // 64, width // gpus]

# %% rows_gathered of="right_step_by_step"
"""Wrong: gathers tokens after they were copied."""

# -    gathered = (gpus - 1) * tokens * row
# +    gathered = (gpus - 1) * tokens * k * row

# %% one_share of="right_step_by_step"
"""Wrong: an eighth of the gathered tokens."""

# -    gathered = (gpus - 1) * tokens * row
# +    gathered = (gpus - 1) * tokens * row // gpus

# %% equal_is_less of="right_step_by_step"
"""Wrong: calls as many bytes fewer."""

# -    while 2 * tokens * least * row * (gpus - 1) / gpus <= 2 * gathered:
# +    while 2 * tokens * least * row * (gpus - 1) / gpus < 2 * gathered:

# %% own_tokens of="right_step_by_step"
"""Wrong: rows of this GPU's tokens alone."""

# -    return [2 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]
# +    return [2 * dispatch, 2 * gathered, least, tokens * k // 64, width // gpus]

# %% rows_of_a_gpu of="right_step_by_step"
"""Wrong: rows of all of a GPU's experts."""

# -    return [2 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]
# +    return [2 * dispatch, 2 * gathered, least, tokens * k, width // gpus]

# %% whole_width of="right_step_by_step"
"""Wrong: the columns of a whole expert."""

# -    return [2 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width // gpus]
# +    return [2 * dispatch, 2 * gathered, least, tokens * gpus * k // 64, width]
