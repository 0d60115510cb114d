"""Wrong: the activations of 1F1B."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    backward = forward + weight_gradient
    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks
