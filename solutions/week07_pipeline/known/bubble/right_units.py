"""Different: counts the units of a step one by one."""


def bubble_and_speedup(num_ranks, num_microbatches):
    step = sum(1 for _ in range(num_microbatches)) + sum(1 for _ in range(num_ranks - 1))
    alone = sum(num_ranks for _ in range(num_microbatches))
    return 1 - num_microbatches / step, alone / step
