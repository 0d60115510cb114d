"""Different: N, and one fraction."""


def zero3_saves(num_parameters, num_ranks, activation_bytes):
    both = 16 * num_parameters + activation_bytes
    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))
