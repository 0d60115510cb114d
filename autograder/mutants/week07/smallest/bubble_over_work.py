"""Wrong: (P-1)/M for the bubble, the ratio to the working time."""


def smallest_num_microbatches(num_ranks, percent):
    return 100 * (num_ranks - 1) // percent + 1
