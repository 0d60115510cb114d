"""Wrong: takes B for the gradient of the input alone."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    backward = forward
    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks + 1
