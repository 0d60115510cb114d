"""Wrong: 1F1B without its weight gradients."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    whole = (num_ranks - 1) * (forward + input_gradient)
    return whole, whole - (num_ranks - 1) * weight_gradient
