"""Wrong: numbers of microbatches below the number of ranks, where both formulas do not hold."""


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
    return int(saved // extra) + 1
