"""Wrong: the share in which a rank works."""


def bubble_and_speedup(num_ranks, num_microbatches):
    total = num_microbatches + num_ranks - 1
    return num_microbatches / total, num_ranks * num_microbatches / total
