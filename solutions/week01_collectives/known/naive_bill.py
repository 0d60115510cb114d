# %% right_loop
"""Different: walks over the messages one by one."""


def naive_all_reduce_bill(num_ranks, num_bytes):
    messages, moved = 0, 0
    for rank in range(num_ranks):
        if rank == 0:
            continue
        for _ in ("gather", "send back"):
            messages += 1
            moved += num_bytes
    return messages, moved


# %% right_two_phases
"""Different: gather and send-back are counted apart and added."""


def naive_all_reduce_bill(num_ranks, num_bytes):
    received = (num_ranks - 1) * num_bytes
    sent = (num_ranks - 1) * num_bytes
    return (num_ranks - 1) + (num_ranks - 1), received + sent


# %% all_pairs
"""Wrong: every rank sends to every other rank."""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return num_ranks * (num_ranks - 1), num_ranks * (num_ranks - 1) * num_bytes


# %% bytes_one_way of="all_pairs"
"""Wrong: right number of messages, bytes of one direction."""

# -    return num_ranks * (num_ranks - 1), num_ranks * (num_ranks - 1) * num_bytes
# +    return 2 * (num_ranks - 1), (num_ranks - 1) * num_bytes

# %% counts_itself of="all_pairs"
"""Wrong: off by one, rank 0 sends itself nothing."""

# -    return num_ranks * (num_ranks - 1), num_ranks * (num_ranks - 1) * num_bytes
# +    return 2 * num_ranks, 2 * num_ranks * num_bytes

# %% one_way of="all_pairs"
"""Wrong: counts what rank 0 receives and forgets what it sends back."""

# -    return num_ranks * (num_ranks - 1), num_ranks * (num_ranks - 1) * num_bytes
# +    return num_ranks - 1, (num_ranks - 1) * num_bytes

# %% public_constant of="all_pairs"
"""Wrong: hard-coded for the visible case of 8 ranks and 14 GB."""

# -    return num_ranks * (num_ranks - 1), num_ranks * (num_ranks - 1) * num_bytes
# +    return 14, 196e9

# %% ring_formula of="all_pairs"
"""Wrong: the bill of a ring, not of rank 0."""

# -    return num_ranks * (num_ranks - 1), num_ranks * (num_ranks - 1) * num_bytes
# +    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) / num_ranks * num_bytes

# %% two_ranks_only of="all_pairs"
"""Wrong: right for 2 ranks only."""

# -    return num_ranks * (num_ranks - 1), num_ranks * (num_ranks - 1) * num_bytes
# +    return 2, 2 * num_bytes
