# %% right_fractions
"""Different: the two fractions, shortened by hand."""


def eight_to_sixty_four():
    return 9 / 8, 9.0


# %% bandwidth_stays of="right_fractions"
"""Wrong: takes the bandwidth term for constant."""

# -    return 9 / 8, 9.0
# +    return 1.0, 9.0

# %% eight_times of="right_fractions"
"""Wrong: eight times the ranks is taken for eight times the bytes."""

# -    return 9 / 8, 9.0
# +    return 8.0, 8.0

# %% num_ranks_for_steps of="right_fractions"
"""Wrong: takes N for N-1 in the number of steps."""

# -    return 9 / 8, 9.0
# +    return (2 * 63 / 64) / (2 * 7 / 8), 64 / 8

# %% swapped of="right_fractions"
"""Wrong: latency factor first."""

# -    return 9 / 8, 9.0
# +    return 126 / 14, (2 * 63 / 64) / (2 * 7 / 8)

# %% the_other_way of="right_fractions"
"""Wrong: from 64 ranks to 8."""

# -    return 9 / 8, 9.0
# +    return 1.75 / (126 / 64), 14 / 126

# %% twice of="right_fractions"
"""Wrong: guesses that both terms double."""

# -    return 9 / 8, 9.0
# +    return 2.0, 2.0

# %% right_from_the_formula
"""Different: both factors from one function of N."""


def eight_to_sixty_four():
    def terms(num_ranks):
        steps = 2 * (num_ranks - 1)
        return steps / num_ranks, steps

    small, large = terms(8), terms(64)
    return large[0] / small[0], large[1] / small[1]
