"""Wrong: writes the microbatch before the letter and the stage behind it."""


def gpipe(num_ranks, num_microbatches):
    return [[f"{m}{kind}{rank}" for kind in "FB" for m in range(num_microbatches)] for rank in range(num_ranks)]
