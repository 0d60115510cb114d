"""Different: zips forwards with backwards."""

from itertools import zip_longest


def overlapped_1f1b(num_ranks, num_microbatches):
    def lane(rank):
        forwards = [f"{rank}F{m}" for m in range(num_microbatches)]
        backwards = [f"{rank}B{m}" for m in range(num_microbatches)]
        warmup = 1 + 2 * (num_ranks - 1 - rank)
        yield from forwards[:warmup]
        for forward, backward in zip_longest(forwards[warmup:], backwards):
            yield f"({forward};{backward})OVERLAP_F_B" if forward else backward

    return tuple(list(lane(rank)) for rank in range(num_ranks))
