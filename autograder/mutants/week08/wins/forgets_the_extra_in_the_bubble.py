"""Wrong: the bubble of ZB-H1 has the extra time too."""


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    saved = (num_ranks - 1) * (2 * weight_gradient)
    return max(num_ranks, int(saved // extra) + 1)
