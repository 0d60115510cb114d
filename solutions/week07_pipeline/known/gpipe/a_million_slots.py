"""Wrong: repeats itself without end."""


def gpipe(num_ranks, num_microbatches):
    return [["0F0"] * 300_000 for _ in range(num_ranks)]
