"""Where weights live between their uses: whole on every rank (ZeRO-1 and 2), or in slices until they are gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.data_parallel.flat import FlatParameters
from shardlab.data_parallel.reducing import Reducer


class WholeWeights:
    """Every rank has all weights, always (ZeRO-1 and 2)."""

    stay_whole = True

    def __init__(self) -> None:
        self._vectors: list[FlatParameters] = []

    def adopt(self, vector: FlatParameters) -> None:
        self._vectors.append(vector)

    def spread(self) -> list[dist.Work]:
        for vector in self._vectors:
            vector.refresh_shard()
        return [work for vector in self._vectors for work in vector.layout.spread(vector)]

    def kept(self) -> list[Tensor]:
        return []

    def has_stepped(self) -> None: ...

    @contextmanager
    def gathered(self) -> Iterator[None]:
        yield

    def before_forward(self, reducer: Reducer) -> None:
        """A model that was changed cannot send the gradients that other ranks wait for."""
        if torch.is_grad_enabled() and (change := reducer.change()):
            reducer.raise_alarm(change)

    def has_left(self, number: int) -> None: ...
    def backward_ended(self) -> None: ...
    def forget_backward(self) -> None: ...


class Gather(Protocol):
    """How a vector's weights travel. `start` returns a function that waits for them."""

    kept: Tensor | None

    def start(self, vector: FlatParameters, allocate: Callable[[], None], *, alarm: bool) -> Callable[[], Any]: ...


class PlainGather:
    """All ranks send their shards as they are. alarm: send NaN, which `heads` of the vector shows to all others."""

    kept: Tensor | None = None

    @torch.no_grad()
    def start(self, vector: FlatParameters, allocate: Callable[[], None], *, alarm: bool) -> Callable[[], Any]:
        allocate()
        mine = torch.full_like(vector.shard, torch.nan) if alarm else vector.shard
        work = dist.all_gather_single(vector.full, mine, group=vector.group, async_op=True)
        return work.wait if work is not None else lambda: None


class GatheredVector:
    """A vector that has memory only between `gather` and `free`; between steps there is the shard."""

    def __init__(self, vector: FlatParameters, gather: Gather) -> None:
        self.vector, self.messages = vector, gather
        self._full_bytes = vector.full.untyped_storage().nbytes()
        self._finish: Callable[[], Any] | None = None
        self.is_there = True
        self.free()

    def gather(self, *, alarm: bool = False) -> None:
        """Start to gather, unless the weights have arrived or are on their way. `wait` before use."""
        if not self.is_there:
            self.is_there = True
            self._finish = self.messages.start(self.vector, self._allocate, alarm=alarm)

    def _allocate(self) -> None:
        self.vector.full.untyped_storage().resize_(self._full_bytes)

    def wait(self) -> None:
        """Return when the gathered weights can be used."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()

    def free(self) -> None:
        """Give the vector's memory back. Views of it, and what autograd has saved, stay and find the next gather's."""
        self.wait()
        if self.is_there:
            self.vector.full.untyped_storage().resize_(0)
            self.is_there = False

    def spread(self) -> None:
        """After a step: free the old weights, so that the next forward gathers the new shards."""
        self.free()
        self.messages.kept = None
        self.vector.refresh_shard()
