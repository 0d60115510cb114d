"""Wrong: an optimizer twelve times as large as the weights."""


def state_bytes(num_parameters, num_ranks):
    cut = num_parameters / num_ranks
    return [28 * num_parameters, 4 * num_parameters + 24 * cut, 2 * num_parameters + 26 * cut, 28 * cut]
