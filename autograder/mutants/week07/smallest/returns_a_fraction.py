"""Wrong: the limit itself, which is no number of microbatches."""


def smallest_num_microbatches(num_ranks, percent):
    return (num_ranks - 1) * (100 / percent - 1)
