"""Wrong: no microbatch at all for one rank."""


def smallest_num_microbatches(num_ranks, percent):
    limit = (num_ranks - 1) * (100 - percent)
    return limit // percent + 1 if limit else 0
