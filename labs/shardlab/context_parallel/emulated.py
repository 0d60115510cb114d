"""A ring that sends its blocks over an emulated link."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from shardlab.context_parallel.messages import Group, Pass, Passing, pass_right
from shardlab.mesh.emulated import EmulatedLink, sleep_until


def over_link(bytes_per_second: float) -> Pass:
    """A `pass_on` for `Ring` that sends blocks one after another over a link to the right neighbor.

    A block takes its bytes / bandwidth, or as long as the real messages if that is longer. Raises ValueError if the
    bandwidth is not positive.
    """
    link = EmulatedLink(bytes_per_second)

    def pass_on(tensors: Sequence[Tensor], group: Group) -> Passing:
        due = link.send(sum(one.nbytes for one in tensors))
        return _OverLink(pass_right(tensors, group), due)

    return pass_on


class _OverLink:
    """A message that does not arrive before it is due."""

    def __init__(self, real: Passing, due: float) -> None:
        self._real, self._due = real, due

    def arrived(self) -> list[Tensor]:
        tensors = self._real.arrived()
        sleep_until(self._due)
        return tensors

    def sent(self) -> None:
        self._real.sent()
