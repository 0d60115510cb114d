"""Different: a whole-number division."""


def smallest_num_microbatches(num_ranks, percent):
    return max(1, (num_ranks - 1) * (100 - percent) // percent + 1)
