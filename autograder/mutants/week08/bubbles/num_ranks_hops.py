"""Wrong: counts ranks instead of the hops between them."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    whole = (num_ranks) * (forward + input_gradient + weight_gradient)
    return whole, whole - 2 * (num_ranks) * weight_gradient
