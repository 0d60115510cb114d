"""Wrong: all 16 bytes a parameter travel."""


def seconds_a_step(num_parameters, num_ranks, bits_per_second):
    whole = 16 * num_parameters * (num_ranks - 1) / num_ranks * 8 / bits_per_second
    return 2 * whole, 3 * whole
