"""Wrong: the step lasts M + P - 1 units, not M + P."""


def bubble_and_speedup(num_ranks, num_microbatches):
    return num_ranks / (num_microbatches + num_ranks), num_ranks * num_microbatches / (num_microbatches + num_ranks)
