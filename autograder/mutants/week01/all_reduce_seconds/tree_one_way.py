"""Wrong: the tree reduces and never broadcasts."""

import math


def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    if algorithm == "ring":
        return 2 * (num_ranks - 1) * alpha + 2 * (num_ranks - 1) / num_ranks * num_bytes * beta
    return math.ceil(math.log2(num_ranks)) * (alpha + num_bytes * beta)
