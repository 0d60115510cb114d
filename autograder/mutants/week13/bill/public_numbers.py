"""Wrong: the numbers of the visible cases."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    return 6.0 if weight_gradient == 1 else 6.6, 9
