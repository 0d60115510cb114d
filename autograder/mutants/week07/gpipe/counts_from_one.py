"""Wrong: counts ranks and microbatches from 1."""


def gpipe(num_ranks, num_microbatches):
    numbers = range(1, num_microbatches + 1)
    return [[f"{rank}{kind}{m}" for kind in "FB" for m in numbers] for rank in range(1, num_ranks + 1)]
