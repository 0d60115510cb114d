"""Wrong: stage 3 first."""


def state_bytes(num_parameters, num_ranks):
    cut = num_parameters / num_ranks
    return [16 * num_parameters, 4 * num_parameters + 12 * cut, 2 * num_parameters + 14 * cut, 16 * cut][::-1]
