"""How weights are stored between uses: whole on every rank (ZeRO-1 and 2), or in shards until they are gathered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.data_parallel.flat import FlatParameters, Works
from shardlab.data_parallel.reducing import Reducer


class WholeWeights:
    """Every rank always has all weights (ZeRO-1 and 2)."""

    stay_whole = True

    def __init__(self) -> None:
        self._vectors: list[FlatParameters] = []

    def adopt(self, vector: FlatParameters) -> None:
        self._vectors.append(vector)

    def all_gather_params(self) -> Works:
        for vector in self._vectors:
            vector.refresh_shard()
        return [work for vector in self._vectors for work in vector.layout.all_gather_params(vector)]

    def secondary(self) -> list[Tensor]:
        return []

    def gathered(self) -> AbstractContextManager[None]:
        return nullcontext()

    def before_forward(self, reducer: Reducer) -> None:
        """Raise the alarm if the model was changed, since it cannot send the gradients that other ranks wait for."""
        if torch.is_grad_enabled() and (change := reducer.change()):
            reducer.raise_alarm(change)

    def has_left(self, number: int) -> None: ...
    def backward_ended(self) -> None: ...
    def forget_backward(self) -> None: ...


class GatheredVector:
    """A vector that has memory only between `gather` and `free`. Between steps only the shard is stored.

    start_gather: how weights are sent. secondary: hpZ's second shard, kept until the next step.
    """

    def __init__(self, flat: FlatParameters, start_gather: Gather, *, number: int) -> None:
        self.flat, self._start_gather, self.number = flat, start_gather, number
        self.secondary: Tensor | None = None
        self._full_bytes = flat.full.untyped_storage().nbytes()
        self._finish: Callable[[], Any] | None = None
        self.is_there = True
        self.free()

    @torch.no_grad()
    def gather(self, *, alarm: bool = False) -> None:
        """Start to gather, unless already started. Call `wait` before use. alarm: send NaN instead."""
        if not self.is_there:
            self.is_there = True
            mine = self.flat.shard if self.secondary is None else self.secondary
            self._finish = self._start_gather(self, torch.full_like(mine, torch.nan) if alarm else mine)

    def allocate(self) -> None:
        """Allocate the vector's memory to gather into."""
        self.flat.full.untyped_storage().resize_(self._full_bytes)

    @torch.no_grad()
    def wait(self) -> None:
        """Wait until the gathered weights can be used."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()

    def free(self) -> None:
        """Free the vector's memory. Views and tensors saved by autograd stay valid and see the next gathered values."""
        self.wait()
        if self.is_there:
            self.flat.full.untyped_storage().resize_(0)
            self.is_there = False

    def use_new_shard(self) -> None:
        """After a step: free the old weights, so that the next forward gathers the new shards."""
        self.free()
        self.secondary = None
        self.flat.refresh_shard()


Gather = Callable[[GatheredVector, Tensor], Callable[[], Any]]  # sends this rank's shard; the result waits


def gather_plain(vector: GatheredVector, mine: Tensor) -> Callable[[], Any]:
    """All ranks send their shards without compression."""
    vector.allocate()
    work: Any = dist.all_gather_single(vector.flat.full, mine, group=vector.flat.group, async_op=True)
    return work.wait
