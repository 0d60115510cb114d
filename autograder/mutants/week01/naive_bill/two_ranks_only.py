"""Wrong: right for 2 ranks only."""


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 2, 2 * num_bytes
