"""Wrong: holds one activation whatever is allowed."""


def capped(num_ranks, num_microbatches, max_activations):
    return [[f"{rank}{kind}{m}" for m in range(num_microbatches) for kind in "FB"] for rank in range(num_ranks)]
