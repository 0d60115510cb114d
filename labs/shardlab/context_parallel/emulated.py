"""A link of a chosen bandwidth for a ring's blocks: ranks that share cores cannot show what a real one would hide."""

from __future__ import annotations

import time
from collections.abc import Sequence

from torch import Tensor

from shardlab.context_parallel.messages import Group, Pass, Passing, pass_right


def over_link(bytes_per_second: float) -> Pass:
    """A `pass_on` for `Ring` whose blocks follow one another over a link to the right neighbour of this bandwidth.

    A block takes its bytes / bandwidth, or as long as the real messages where that is longer. Raises ValueError for a
    bandwidth that is not positive.
    """
    if bytes_per_second <= 0:
        raise ValueError(f"nothing travels at {bytes_per_second} bytes per second: use more than 0")
    free_at = 0.0

    def pass_on(tensors: Sequence[Tensor], group: Group) -> Passing:
        nonlocal free_at
        seconds = sum(one.numel() * one.element_size() for one in tensors) / bytes_per_second
        free_at = max(free_at, time.monotonic()) + seconds
        return _OverLink(pass_right(tensors, group), due=free_at)

    return pass_on


class _OverLink:
    """A message that has not arrived before it is due."""

    def __init__(self, real: Passing, due: float) -> None:
        self._real, self._due = real, due

    def arrived(self) -> list[Tensor]:
        tensors = self._real.arrived()
        time.sleep(max(0.0, self._due - time.monotonic()))
        return tensors

    def sent(self) -> None:
        self._real.sent()
