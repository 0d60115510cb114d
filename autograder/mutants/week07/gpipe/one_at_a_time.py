"""Wrong: each microbatch forward and back before the next, a pipeline that never fills."""


def gpipe(num_ranks, num_microbatches):
    return [[f"{rank}{kind}{m}" for m in range(num_microbatches) for kind in "FB"] for rank in range(num_ranks)]
