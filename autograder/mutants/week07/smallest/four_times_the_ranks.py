"""Wrong: the rule of thumb M = 4P."""


def smallest_num_microbatches(num_ranks, percent):
    return 4 * num_ranks
