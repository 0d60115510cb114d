"""Wrong: subtracts two weight gradients, as for ZB-H1."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    backward = forward + weight_gradient
    return (num_ranks / 2 - 1) * (pair + backward - 2 * weight_gradient), num_ranks + 1
