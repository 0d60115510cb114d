"""Wrong: rank 0 holds the last stage."""


def gpipe(num_ranks, num_microbatches):
    stages = reversed(range(num_ranks))
    return [[f"{stage}{kind}{m}" for kind in "FB" for m in range(num_microbatches)] for stage in stages]
