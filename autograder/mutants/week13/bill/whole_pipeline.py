"""Wrong: as if microbatches entered at one end."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    backward = forward + weight_gradient
    return (num_ranks - 1) * (pair + backward - 3 * weight_gradient), num_ranks + 1
