"""Wrong: at a tie, where both take as long, it takes 1F1B for quicker."""

import math


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
    return max(num_ranks, math.ceil(saved / extra))
