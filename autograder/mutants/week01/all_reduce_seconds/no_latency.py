"""Wrong: forgets alpha, right only for very large messages."""

import math


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    if algorithm == "ring":
        return 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
    return 2 * math.ceil(math.log2(num_ranks)) * num_bytes * beta
