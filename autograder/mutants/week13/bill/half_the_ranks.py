"""Wrong: counts ranks to the middle instead of hops."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    backward = forward + weight_gradient
    return (num_ranks / 2) * (pair + backward - 3 * weight_gradient), num_ranks + 1
