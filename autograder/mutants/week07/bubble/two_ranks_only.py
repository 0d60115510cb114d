"""Wrong: right for 2 ranks only."""


def bubble_and_speedup(num_ranks, num_microbatches):
    return 1 / (num_microbatches + 1), 2 * num_microbatches / (num_microbatches + 1)
