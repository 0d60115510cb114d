"""Different: input gradient and backward by name."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    input_gradient = forward
    full_backward = input_gradient + weight_gradient
    hops = (num_ranks - 2) // 2
    return hops * pair + hops * full_backward - 3 * hops * weight_gradient, num_ranks + 1
