"""Wrong: the bill of a ring, not of rank 0."""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) / num_ranks * num_bytes
