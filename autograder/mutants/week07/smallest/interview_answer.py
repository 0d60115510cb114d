"""Wrong: the answer to the interview question alone."""


def smallest_num_microbatches(num_ranks, percent):
    return 64
