# %% right_fractions
"""Different: exact fractions, turned into numbers at the end."""

from fractions import Fraction


def bubble_and_speedup(num_ranks, num_microbatches):
    idle = Fraction(num_ranks - 1, num_microbatches + num_ranks - 1)
    return float(idle), float(idle / (1 - idle)), float(num_ranks * (1 - idle))


# %% right_units
"""Different: counts the units of a step one by one."""


def bubble_and_speedup(num_ranks, num_microbatches):
    step = sum(1 for _ in range(num_microbatches)) + sum(1 for _ in range(num_ranks - 1))
    alone = sum(num_ranks for _ in range(num_microbatches))
    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step


# %% against_one_gpu of="right_units"
"""Wrong: takes the utilisation of all GPUs for the speed-up over one."""

# -    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step
# +    return 1 - num_microbatches / step, step / num_microbatches - 1, num_microbatches / step

# %% bubble_over_work of="right_units"
"""Wrong: idle time over working time twice: (P-1)/M also for the share of the step."""

# -    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step
# +    return step / num_microbatches - 1, step / num_microbatches - 1, alone / step

# %% off_by_one of="right_units"
"""Wrong: the step lasts M + P - 1 units, not M + P."""

# -    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step
# +    step += 1
# +    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step

# %% one_share_twice of="right_units"
"""Wrong: idle time over the step twice, so PTD-P's bubble comes out too small."""

# -    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step
# +    return 1 - num_microbatches / step, 1 - num_microbatches / step, alone / step

# %% seed_note of="right_units"
"""Wrong: "20 per cent against a single GPU" taken literally, less than one GPU is left."""

# -    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step
# +    idle = 1 - num_microbatches / step
# +    return idle, idle / (1 - idle), 1 - idle

# %% step_over_work of="right_units"
"""Wrong: how much longer the step is than the work, without subtracting the work."""

# -    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step
# +    return 1 - num_microbatches / step, step / num_microbatches, alone / step

# %% two_ranks_only of="right_units"
"""Wrong: right for 2 ranks only."""

# -    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step
# +    return 1 / (num_microbatches + 1), 1 / num_microbatches, 2 * num_microbatches / (num_microbatches + 1)

# %% utilisation_for_bubble of="right_units"
"""Wrong: the share in which a rank works."""

# -    return 1 - num_microbatches / step, step / num_microbatches - 1, alone / step
# +    return num_microbatches / step, step / num_microbatches - 1, alone / step
