"""A unit's weights: a slice forever, the whole vector only while it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from shardlab.data_parallel.flat import FlatParameters


class GatheredParameters(FlatParameters):
    """Flat parameters whose vector has memory only between `gather` and `free`; between steps there is the shard."""

    def __init__(self, parameters: Sequence[nn.Parameter], **options: Any) -> None:
        super().__init__(parameters, **options)
        is_own = self.master.data_ptr() == self.shard.data_ptr()
        self.shard = self.shard.clone()
        if is_own:
            self.master = nn.Parameter(self.shard)
        self._full_bytes = self.full.untyped_storage().nbytes()
        self._work: dist.Work | None = None
        self.is_there = True
        self.free()

    @torch.no_grad()
    def gather(self, *, alarm: bool = False) -> None:
        """Start the all-gather of the vector, unless it is there or on its way. `wait` before use.

        alarm: send NaN in place of this rank's shard; `heads` of the vector shows it to all others.
        """
        if self.is_there:
            return
        self.is_there = True
        self.full.untyped_storage().resize_(self._full_bytes)
        mine = torch.full_like(self.shard, torch.nan) if alarm else self.shard
        self._work = dist.all_gather_single(self.full, mine, group=self.group, async_op=True)

    def wait(self) -> None:
        """Return when the gathered weights can be used."""
        if self._work is not None:
            self._work.wait()
        self._work = None

    def free(self) -> None:
        """Give the vector's memory back. Views of it, and what autograd has saved, stay and find the next gather's."""
        self.wait()
        if self.is_there:
            self.full.untyped_storage().resize_(0)
            self.is_there = False

    @torch.no_grad()
    def spread(self) -> list[dist.Work]:
        """After a step: nothing travels; free the old weights, so that the next forward gathers the new shards."""
        self.free()
        if self.master.data_ptr() != self.shard.data_ptr():
            self.shard.copy_(self.master)
        return []
