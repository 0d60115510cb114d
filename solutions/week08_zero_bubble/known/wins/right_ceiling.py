"""Different: rounds up the crossing."""

import math


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    crossing = (num_ranks - 1) * (2 * weight_gradient / extra - 1)
    return max(num_ranks, math.floor(crossing) + 1)
