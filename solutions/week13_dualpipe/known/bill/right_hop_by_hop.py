"""Different: adds up hop by hop."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    idle = 0.0
    for _ in range(num_ranks // 2 - 1):
        idle += pair
        idle += forward - 2 * weight_gradient
    return [idle, 1 + num_ranks]
