"""Wrong: takes bits for bytes."""


def seconds_a_step(num_parameters, num_ranks, bits_per_second):
    whole = 2 * num_parameters * (num_ranks - 1) / num_ranks
    return 2 * whole / bits_per_second, 3 * whole / bits_per_second
