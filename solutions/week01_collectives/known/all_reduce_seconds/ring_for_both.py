"""Wrong: a ring whatever the algorithm."""


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
