"""Wrong: gives ZB-H2's idle time within the rank's own span for ZB-H1's."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    whole = (num_ranks - 1) * (forward + input_gradient + weight_gradient)
    return whole, whole - 3 * (num_ranks - 1) * weight_gradient
