"""Wrong: rounds of GPipe with a flush after each, under the cap and slow."""


def capped(num_ranks, num_microbatches, max_activations):
    rounds = [
        range(begin, min(begin + max_activations, num_microbatches))
        for begin in range(0, num_microbatches, max_activations)
    ]
    return [[f"{rank}{kind}{m}" for part in rounds for kind in "FB" for m in part] for rank in range(num_ranks)]
