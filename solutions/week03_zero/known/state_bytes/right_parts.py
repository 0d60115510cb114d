"""Different: the parts of each stage, summed."""


def state_bytes(num_parameters, num_ranks):
    table = []
    for stage in range(4):
        held = 0.0
        for first_cut, size in ((3, 2), (2, 2), (1, 12)):
            held += size * num_parameters / (num_ranks if stage >= first_cut else 1)
        table.append(held)
    return tuple(table)
