"""Different: pops from two queues, and returns tuples of texts."""

from collections import deque


def interleaved(num_ranks, num_microbatches, num_chunks):
    ranks = []
    for rank in range(num_ranks):
        forwards, backwards = deque(), deque()
        for first in range(0, num_microbatches, num_ranks):
            for chunk in range(num_chunks):
                for m in range(first, first + num_ranks):
                    forwards.append(f"{rank + chunk * num_ranks}F{m}")
                    backwards.append(f"{rank + (num_chunks - 1 - chunk) * num_ranks}B{m}")
        slots = []
        for _ in range((num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank)):
            if forwards:
                slots.append(forwards.popleft())
        while backwards:
            if forwards:
                slots.append(forwards.popleft())
            slots.append(backwards.popleft())
        ranks.append(tuple(slots))
    return tuple(ranks)
