"""Wrong: the number of the visible case."""


def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    return 35
