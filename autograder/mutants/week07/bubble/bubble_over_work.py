"""Wrong: idle time over working time, the ratio (P-1)/M that some papers print."""


def bubble_and_speedup(num_ranks, num_microbatches):
    return (num_ranks - 1) / num_microbatches, num_ranks * num_microbatches / (num_microbatches + num_ranks - 1)
