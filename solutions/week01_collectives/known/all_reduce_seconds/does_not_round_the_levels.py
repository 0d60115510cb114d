"""Wrong: a tree of 6 ranks has 3 levels and not 2.58."""

import math


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    if algorithm == "ring":
        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
    return 2 * math.log2(num_ranks) * (alpha + num_bytes * beta)
