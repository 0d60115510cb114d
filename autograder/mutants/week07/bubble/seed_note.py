"""Wrong: "20 per cent against a single GPU" taken literally, less than one GPU is left."""


def bubble_and_speedup(num_ranks, num_microbatches):
    idle = (num_ranks - 1) / (num_microbatches + num_ranks - 1)
    return idle, 1 - idle
