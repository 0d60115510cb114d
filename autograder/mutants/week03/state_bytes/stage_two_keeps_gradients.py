"""Wrong: stage 2 cuts the weights where it should cut the gradients."""


def state_bytes(num_parameters, num_ranks):
    cut = num_parameters / num_ranks
    return [16 * num_parameters, 4 * num_parameters + 12 * cut, 4 * num_parameters + 12 * cut, 16 * cut]
