"""Wrong: a pair that hides nothing."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    backward = forward + weight_gradient
    return (num_ranks / 2 - 1) * (forward + backward + backward - 3 * weight_gradient), num_ranks + 1
