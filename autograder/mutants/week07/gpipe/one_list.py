"""Wrong: one list for all ranks together."""


def gpipe(num_ranks, num_microbatches):
    return [f"{rank}{kind}{m}" for rank in range(num_ranks) for kind in "FB" for m in range(num_microbatches)]
