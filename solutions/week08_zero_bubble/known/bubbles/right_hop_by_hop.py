"""Different: adds up hop by hop and returns a list."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    idle = [0.0, 0.0]
    for _ in range(1, num_ranks):
        idle[0] += forward + input_gradient + weight_gradient
        idle[1] += forward + input_gradient - weight_gradient
    return idle
