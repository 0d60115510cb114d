"""Wrong: takes the utilisation of all GPUs for the speed-up over one."""


def bubble_and_speedup(num_ranks, num_microbatches):
    return (num_ranks - 1) / (num_microbatches + num_ranks - 1), num_microbatches / (num_microbatches + num_ranks - 1)
