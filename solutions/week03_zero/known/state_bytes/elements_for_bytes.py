"""Wrong: four fp32 numbers a parameter, counted as numbers."""


def state_bytes(num_parameters, num_ranks):
    cut = num_parameters / num_ranks
    return [4 * num_parameters, num_parameters + 3 * cut, num_parameters + 3 * cut, 4 * cut]
