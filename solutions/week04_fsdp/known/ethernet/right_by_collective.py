"""Different: a collective at a time."""


def seconds_a_step(num_parameters, num_ranks, bits_per_second):
    half = 2 * num_parameters * 8 / bits_per_second * (1 - 1 / num_ranks)
    gather = reduce = half
    return reduce + gather, gather + gather + reduce
