"""Different: a generator of one rank's slots with three loops."""


def slots_of(rank, num_ranks, num_microbatches):
    warm = min(num_ranks - 1 - rank, num_microbatches)
    for m in range(warm):
        yield f"{rank}F{m}"
    for m in range(num_microbatches - warm):
        yield f"{rank}F{warm + m}"
        yield f"{rank}B{m}"
    for m in range(num_microbatches - warm, num_microbatches):
        yield f"{rank}B{m}"


def one_f_one_b(num_ranks, num_microbatches):
    return [list(slots_of(rank, num_ranks, num_microbatches)) for rank in range(num_ranks)]
