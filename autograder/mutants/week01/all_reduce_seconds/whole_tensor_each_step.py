"""Wrong: sends the whole tensor in each of the 2(N-1) steps of the ring."""

import math


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    if algorithm == "ring":
        return 2 * (num_ranks - 1) * (alpha + num_bytes * beta)
    return 2 * math.ceil(math.log2(num_ranks)) * (alpha + num_bytes * beta)
