"""Wrong: every rank sends to every other rank."""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return num_ranks * (num_ranks - 1), num_ranks * (num_ranks - 1) * num_bytes
