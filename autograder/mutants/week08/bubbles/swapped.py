"""Wrong: the two numbers in the other order."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    whole = (num_ranks - 1) * (forward + input_gradient + weight_gradient)
    return whole - 2 * (num_ranks - 1) * weight_gradient, whole
