"""How much communication hides behind the backward: one link with buckets queueing for it. Pure Python.

All times are in seconds from the start of the step: the forward, then the backward from the last layer to the first
(Li et al., PyTorch Distributed, 2006.15704, figure 6).
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class Transfer(NamedTuple):
    """When a bucket's all-reduce begins and ends."""

    begin: float
    end: float


def efficiency(compute_seconds: float, exposed_seconds: float) -> float:
    """compute / (compute + exposed communication). ValueError unless compute is positive."""
    if compute_seconds <= 0 or exposed_seconds < 0:
        raise ValueError(f"{compute_seconds} s of compute, {exposed_seconds} s exposed: use more than 0, and 0 or more")
    return compute_seconds / (compute_seconds + exposed_seconds)


def ready_times(forward_seconds: float, backward_seconds: Sequence[float]) -> list[float]:
    """When each layer's gradients are ready. backward_seconds: one per layer, last layer first."""
    return list(accumulate(backward_seconds, initial=forward_seconds))[1:]


def transfers(ready: Sequence[float], seconds: Sequence[float]) -> list[Transfer]:
    """When buckets are sent, in order: each once it is ready and the previous one has arrived.

    Raises ValueError unless there is one duration per bucket.
    """
    if len(ready) != len(seconds):
        raise ValueError(f"{len(seconds)} durations for {len(ready)} buckets: give one per bucket")
    timeline: list[Transfer] = []
    for when, duration in zip(ready, seconds, strict=True):
        begin = max(when, timeline[-1].end if timeline else 0.0)
        timeline.append(Transfer(begin, begin + duration))
    return timeline


def exposed_seconds(compute_seconds: float, timeline: Sequence[Transfer]) -> float:
    """Seconds that a step waits after its compute for the last bucket."""
    return max(0.0, max((bucket.end for bucket in timeline), default=0.0) - compute_seconds)
