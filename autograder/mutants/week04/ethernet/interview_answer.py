"""Wrong: knows the answer of the question."""


def seconds_a_step(num_parameters, num_ranks, bits_per_second):
    return 204.75, 307.125
