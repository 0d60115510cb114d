"""Different: both formulas as the papers print them."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    hops = num_ranks - 1
    return hops * (forward + input_gradient + weight_gradient), hops * (forward + input_gradient - weight_gradient)
