"""Different: counts up until 1F1B is quicker."""


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    whole = 3 * weight_gradient
    split = whole + extra
    m = num_ranks
    while (m + num_ranks - 1) * whole >= m * split + (num_ranks - 1) * (split - 2 * weight_gradient):
        m += 1
    return m
