# %% right_one_line_a_stage
"""Different: one formula a stage, in whole fractions."""

from fractions import Fraction


def state_bytes(num_parameters, num_ranks):
    share = Fraction(1, num_ranks)
    each = [16, 4 + 12 * share, 2 + 14 * share, 16 * share]
    return [float(size * Fraction(num_parameters)) for size in each]


# %% right_parts
"""Different: the parts of each stage, summed."""


def state_bytes(num_parameters, num_ranks):
    table = []
    for stage in range(4):
        held = 0.0
        for first_cut, size in ((3, 2), (2, 2), (1, 12)):
            held += size * num_parameters / (num_ranks if stage >= first_cut else 1)
        table.append(held)
    return tuple(table)


# %% elements_for_bytes
"""Wrong: four fp32 numbers a parameter, counted as numbers."""


def state_bytes(num_parameters, num_ranks):
    cut = num_parameters / num_ranks
    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]


# %% eight_ranks_only of="elements_for_bytes"
"""Wrong: right for the visible case only."""

# -    cut = num_parameters / num_ranks
# -    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]
# +    cut = num_parameters / 8
# +    return [16 * num_parameters, 4 * num_parameters + 12 * cut, 2 * num_parameters + 14 * cut, 16 * cut]

# %% limits_for_factors of="elements_for_bytes"
"""Wrong: divides by 4 and 8, the limits for many ranks."""

# -    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]
# +    return [16 * num_parameters, 4 * num_parameters, 2 * num_parameters, 16 * cut]

# %% main_gradients of="elements_for_bytes"
"""Wrong: keeps gradients in float32, 18 bytes per parameter."""

# -    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]
# +    return [18 * num_parameters, 6 * num_parameters + 12 * cut, 2 * num_parameters + 16 * cut, 18 * cut]

# %% reversed_order of="elements_for_bytes"
"""Wrong: stage 3 first."""

# -    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]
# +    return [16 * num_parameters, 4 * num_parameters + 12 * cut, 2 * num_parameters + 14 * cut, 16 * cut][::-1]

# %% stage_three_keeps_a_copy of="elements_for_bytes"
"""Wrong: stage 3 keeps the weights whole."""

# -    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]
# +    weights = 2 * num_parameters
# +    return [16 * num_parameters, 4 * num_parameters + 12 * cut, weights + 14 * cut, weights + 14 * cut]

# %% stage_two_keeps_gradients of="elements_for_bytes"
"""Wrong: stage 2 cuts the weights where it should cut the gradients."""

# -    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]
# +    return [16 * num_parameters, 4 * num_parameters + 12 * cut, 4 * num_parameters + 12 * cut, 16 * cut]

# %% three_n of="elements_for_bytes"
"""Wrong: stage 3 divides by 3 N."""

# -    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]
# +    return [16 * num_parameters, 4 * num_parameters + 12 * cut, 2 * num_parameters + 14 * cut, 16 * cut / 3]

# %% twelve_times_the_weights of="elements_for_bytes"
"""Wrong: an optimizer twelve times as large as the weights."""

# -    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]
# +    return [28 * num_parameters, 4 * num_parameters + 24 * cut, 2 * num_parameters + 26 * cut, 28 * cut]
