"""Wrong: takes the eight ranks of the text."""


def state_bytes(num_parameters, num_ranks):
    cut = num_parameters / num_ranks
    return [16 * num_parameters, 4 * num_parameters + 12 * cut, 2 * num_parameters + 14 * cut, 16 * cut]


def hundred_million_on_two():
    return [num_bytes / 1e9 for num_bytes in state_bytes(100e6, 8)]
