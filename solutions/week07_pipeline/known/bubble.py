# %% right_fractions
"""Different: exact fractions, turned into numbers at the end."""

from fractions import Fraction


def bubble_and_speedup(num_ranks, num_microbatches):
    idle = Fraction(num_ranks - 1, num_microbatches + num_ranks - 1)
    return float(idle), float(num_ranks * (1 - idle))


# %% right_units
"""Different: counts the units of a step one by one."""


def bubble_and_speedup(num_ranks, num_microbatches):
    step = sum(1 for _ in range(num_microbatches)) + sum(1 for _ in range(num_ranks - 1))
    alone = sum(num_ranks for _ in range(num_microbatches))
    return 1 - num_microbatches / step, alone / step


# %% against_one_gpu of="right_units"
"""Wrong: takes the utilisation of all GPUs for the speed-up over one."""

# -    step = sum(1 for _ in range(num_microbatches)) + sum(1 for _ in range(num_ranks - 1))
# -    alone = sum(num_ranks for _ in range(num_microbatches))
# -    return 1 - num_microbatches / step, alone / step
# +    return (num_ranks - 1) / (num_microbatches + num_ranks - 1), num_microbatches / (num_microbatches + num_ranks - 1)

# %% bubble_over_work of="right_units"
"""Wrong: idle time over working time, the ratio (P-1)/M that some papers print."""

# -    step = sum(1 for _ in range(num_microbatches)) + sum(1 for _ in range(num_ranks - 1))
# -    alone = sum(num_ranks for _ in range(num_microbatches))
# -    return 1 - num_microbatches / step, alone / step
# +    return (num_ranks - 1) / num_microbatches, num_ranks * num_microbatches / (num_microbatches + num_ranks - 1)

# %% off_by_one of="right_units"
"""Wrong: the step lasts M + P - 1 units, not M + P."""

# -    step = sum(1 for _ in range(num_microbatches)) + sum(1 for _ in range(num_ranks - 1))
# -    alone = sum(num_ranks for _ in range(num_microbatches))
# -    return 1 - num_microbatches / step, alone / step
# +    return num_ranks / (num_microbatches + num_ranks), num_ranks * num_microbatches / (num_microbatches + num_ranks)

# %% seed_note of="right_units"
"""Wrong: "20 per cent against a single GPU" taken literally, less than one GPU is left."""

# -    step = sum(1 for _ in range(num_microbatches)) + sum(1 for _ in range(num_ranks - 1))
# -    alone = sum(num_ranks for _ in range(num_microbatches))
# -    return 1 - num_microbatches / step, alone / step
# +    idle = (num_ranks - 1) / (num_microbatches + num_ranks - 1)
# +    return idle, 1 - idle

# %% two_ranks_only of="right_units"
"""Wrong: right for 2 ranks only."""

# -    step = sum(1 for _ in range(num_microbatches)) + sum(1 for _ in range(num_ranks - 1))
# -    alone = sum(num_ranks for _ in range(num_microbatches))
# -    return 1 - num_microbatches / step, alone / step
# +    return 1 / (num_microbatches + 1), 2 * num_microbatches / (num_microbatches + 1)

# %% utilisation_for_bubble of="right_units"
"""Wrong: the share in which a rank works."""

# -    step = sum(1 for _ in range(num_microbatches)) + sum(1 for _ in range(num_ranks - 1))
# -    alone = sum(num_ranks for _ in range(num_microbatches))
# -    return 1 - num_microbatches / step, alone / step
# +    total = num_microbatches + num_ranks - 1
# +    return num_microbatches / total, num_ranks * num_microbatches / total
