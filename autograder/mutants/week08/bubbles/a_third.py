"""Wrong: a third of 1F1B's bubble, which holds at F = I = W only."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    whole = (num_ranks - 1) * (forward + input_gradient + weight_gradient)
    return whole, whole / 3
