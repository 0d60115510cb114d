# %% right_step_by_step
"""Different: adds up the steps one by one."""


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    if algorithm == "ring":
        step = alpha + num_bytes / num_ranks * beta
        return sum(step for _ in range(2 * (num_ranks - 1)))
    seconds, reached = 0.0, 1
    while reached < num_ranks:
        reached *= 2
        seconds += 2 * (alpha + num_bytes * beta)
    return seconds


# %% right_two_halves
"""Different: one function per half and per algorithm, levels from bit_length."""


def ring_half(num_ranks, num_bytes, alpha, beta):
    return (num_ranks - 1) * (alpha + num_bytes * beta / num_ranks)


def tree_half(num_ranks, num_bytes, alpha, beta):
    return (num_ranks - 1).bit_length() * (alpha + num_bytes * beta)


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    match algorithm:
        case "ring":
            return 2 * ring_half(num_ranks, num_bytes, alpha, beta)
        case "tree":
            return 2 * tree_half(num_ranks, num_bytes, alpha, beta)
    raise ValueError(f'algorithm is "ring" or "tree", not {algorithm!r}')


# %% does_not_round_the_levels
"""Wrong: a tree of 6 ranks has 3 levels and not 2.58."""

import math


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    if algorithm == "ring":
        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)


# %% beta_is_bandwidth of="does_not_round_the_levels"
"""Wrong: divides by beta as if it were bytes per second."""

# -        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
# -    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)
# +        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes / beta
# +    return 2 * math.ceil(math.log2(num_ranks)) * (alpha + num_bytes / beta)

# %% half_a_ring of="does_not_round_the_levels"
"""Wrong: only the reduce-scatter, half of the all-reduce."""

# -        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
# -    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)
# +        return (num_ranks - 1) * alpha + (num_ranks - 1) / num_ranks * num_bytes * beta
# +    return 2 * math.ceil(math.log2(num_ranks)) * (alpha + num_bytes * beta)

# %% no_latency of="does_not_round_the_levels"
"""Wrong: forgets alpha, right only for very large messages."""

# -        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
# -    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)
# +        return 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
# +    return 2 * math.ceil(math.log2(num_ranks)) * num_bytes * beta

# %% one_message_too_many of="does_not_round_the_levels"
"""Wrong: off by one, a ring makes 2(N-1) steps and not 2N."""

# -        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
# -    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)
# +        return 2 * num_ranks * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
# +    return 2 * math.ceil(math.log2(num_ranks)) * (alpha + num_bytes * beta)

# %% rounds_the_levels_down of="does_not_round_the_levels"
"""Wrong: rounds log2 N down, right for powers of two only."""

# -    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)
# +    return 2 * math.floor(math.log2(num_ranks)) * (alpha + num_bytes * beta)

# %% tree_one_way of="does_not_round_the_levels"
"""Wrong: the tree reduces and never broadcasts."""

# -    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)
# +    return math.ceil(math.log2(num_ranks)) * (alpha + num_bytes * beta)

# %% tree_sends_chunks of="does_not_round_the_levels"
"""Wrong: cuts the message by N in the tree, where the whole message travels."""

# -    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)
# +    return 2 * math.ceil(math.log2(num_ranks)) * (alpha + num_bytes / num_ranks * beta)

# %% whole_tensor_each_step of="does_not_round_the_levels"
"""Wrong: sends the whole tensor in each of the 2(N-1) steps of the ring."""

# -        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
# -    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)
# +        return 2 * (num_ranks - 1) * (alpha + num_bytes * beta)
# +    return 2 * math.ceil(math.log2(num_ranks)) * (alpha + num_bytes * beta)

# %% ring_for_both
"""Wrong: a ring whatever the algorithm."""


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta


# %% two_ranks_only of="ring_for_both"
"""Wrong: right for 2 ranks only."""

# -    return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
# +    return 2 * alpha + num_bytes * beta if algorithm == "ring" else 2 * (alpha + num_bytes * beta)
