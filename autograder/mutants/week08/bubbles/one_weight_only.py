"""Wrong: only one weight gradient moves, the other is still waited for."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    whole = (num_ranks - 1) * (forward + input_gradient + weight_gradient)
    return whole, whole - (num_ranks - 1) * weight_gradient
