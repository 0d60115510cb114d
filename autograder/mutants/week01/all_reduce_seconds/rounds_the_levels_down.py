"""Wrong: rounds log2 N down, right for powers of two only."""

import math


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    if algorithm == "ring":
        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
    return 2 * math.floor(math.log2(num_ranks)) * (alpha + num_bytes * beta)
