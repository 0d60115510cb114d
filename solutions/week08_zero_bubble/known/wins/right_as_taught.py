"""Different: as the page solves it."""


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
    return max(num_ranks, int(saved // extra) + 1)
