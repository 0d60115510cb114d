# %% right_by_collective
"""Different: a collective at a time."""


def seconds_a_step(num_parameters, num_ranks, bits_per_second):
    half = 2 * num_parameters * 8 / bits_per_second * (1 - 1 / num_ranks)
    gather = reduce = half
    return reduce + gather, gather + gather + reduce


# %% right_rounded
"""Different: rounded to four digits."""


def seconds_a_step(num_parameters, num_ranks, bits_per_second):
    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")


# %% bits_for_bytes of="right_rounded"
"""Wrong: takes bits for bytes."""

# -    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
# -    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
# +    whole = 2 * num_parameters * (num_ranks - 1) / num_ranks
# +    return 2 * whole / bits_per_second, 3 * whole / bits_per_second

# %% cut_by_the_ranks of="right_rounded"
"""Wrong: a rank sends its slice once."""

# -    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
# -    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
# +    whole = 2 * num_parameters / num_ranks * 8 / bits_per_second
# +    return 2 * whole, 3 * whole

# %% float32 of="right_rounded"
"""Wrong: four bytes per parameter."""

# -    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
# -    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
# +    whole = 4 * num_parameters * (num_ranks - 1) / num_ranks * 8 / bits_per_second
# +    return 2 * whole, 3 * whole

# %% interview_answer of="right_rounded"
"""Wrong: knows the answer of the question."""

# -    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
# -    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
# +    return 204.75, 307.125

# %% no_share of="right_rounded"
"""Wrong: the limit for many ranks."""

# -    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
# -    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
# +    whole = 2 * num_parameters * 8 / bits_per_second
# +    return 2 * whole, 3 * whole

# %% same_for_both of="right_rounded"
"""Wrong: ZeRO-3 costs what DDP costs."""

# -    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
# -    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
# +    whole = 2 * num_parameters * (num_ranks - 1) / num_ranks * 8 / bits_per_second
# +    return 2 * whole, 2 * whole

# %% sends_the_states of="right_rounded"
"""Wrong: all 16 bytes per parameter travel."""

# -    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
# -    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
# +    whole = 16 * num_parameters * (num_ranks - 1) / num_ranks * 8 / bits_per_second
# +    return 2 * whole, 3 * whole

# %% swapped of="right_rounded"
"""Wrong: ZeRO-3 first."""

# -    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
# -    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
# +    whole = 2 * num_parameters * (num_ranks - 1) / num_ranks * 8 / bits_per_second
# +    return 3 * whole, 2 * whole

# %% through_rank_zero of="right_rounded"
"""Wrong: everything through one rank."""

# -    ddp = 2 * 2 * num_parameters * (num_ranks - 1) / num_ranks / (bits_per_second / 8)
# -    return float(f"{ddp:.4g}"), float(f"{1.5 * ddp:.4g}")
# +    whole = 2 * num_parameters * (num_ranks - 1) * 8 / bits_per_second
# +    return 2 * whole, 3 * whole
