"""Wrong: the last number at which ZB-H1 still wins."""


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
    return max(num_ranks, int(saved // extra))
