"""Wrong: stage 3 keeps the weights whole."""


def state_bytes(num_parameters, num_ranks):
    cut = num_parameters / num_ranks
    weights = 2 * num_parameters
    return [16 * num_parameters, 4 * num_parameters + 12 * cut, weights + 14 * cut, weights + 14 * cut]
