# %% right_as_printed
"""Different: the paper's formula for worker i, counted from 1."""


def held_bytes(num_ranks, rank, before_input, before_weight):
    worker = rank + 1
    whole = (num_ranks - worker + 1) * before_input
    return whole, whole + (worker - 1) * before_weight


# %% right_by_counting
"""Different: counts along the slots of a long step."""


def held_bytes(num_ranks, rank, before_input, before_weight):
    inputs, weights, peaks = num_ranks - 1 - rank, 0, []
    for pair in range(2 * num_ranks):
        inputs += 1
        peaks.append((inputs * before_input, inputs * before_input + weights * before_weight))
        inputs -= 1
        weights += 1
        weights -= pair >= rank
    return [max(one) for one in zip(*peaks, strict=True)]


# %% all_hold_the_same of="right_as_printed"
"""Wrong: P microbatches before their I on each rank, as if what W needs were as large."""

# -    return whole, whole + (worker - 1) * before_weight
# +    return whole, num_ranks * before_input

# %% counts_from_one of="right_as_printed"
"""Wrong: the paper's formula with ranks that count from 0."""

# -    worker = rank + 1
# +    worker = rank

# %% fullest_rank of="right_as_printed"
"""Wrong: table 2's peak p * M_B, which is that of rank 0, for each rank."""

# -    return whole, whole + (worker - 1) * before_weight
# +    return num_ranks * before_input, num_ranks * before_input

# %% no_w_waits of="right_as_printed"
"""Wrong: forgets that a postponed W holds memory."""

# -    return whole, whole + (worker - 1) * before_weight
# +    return whole, whole

# %% one_w_too_many of="right_as_printed"
"""Wrong: one W more waits than the rule allows."""

# -    return whole, whole + (worker - 1) * before_weight
# +    return whole, whole + worker * before_weight

# %% w_keeps_everything of="right_as_printed"
"""Wrong: a postponed W holds as much as before the I."""

# -    return whole, whole + (worker - 1) * before_weight
# +    return whole, whole + (worker - 1) * before_input
