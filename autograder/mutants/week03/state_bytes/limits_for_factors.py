"""Wrong: divides by 4 and 8, the limits for many ranks."""


def state_bytes(num_parameters, num_ranks):
    cut = num_parameters / num_ranks
    return [16 * num_parameters, 4 * num_parameters, 2 * num_parameters, 16 * cut]
