"""Different: a queue of W and a helper that appends."""

from collections import deque


def zb_h1(num_ranks, num_microbatches):
    def lane(rank):
        forwards, waiting = iter(range(num_microbatches)), deque()

        def forward():
            m = next(forwards, None)
            return [] if m is None else [f"{rank}F{m}"]

        for _ in range(num_ranks - 1 - rank):
            yield from forward()
        for m in range(num_microbatches):
            yield from forward()
            yield f"{rank}I{m}"
            waiting.append(m)
            if len(waiting) > rank:
                yield f"{rank}W{waiting.popleft()}"
        yield from (f"{rank}W{m}" for m in waiting)

    return [list(lane(rank)) for rank in range(num_ranks)]
