"""Whole parameters, one owner each: the cut for optimizers that look at matrices, such as Muon and Adafactor.

A slice that ends inside a matrix has no rows and columns. So here no matrix is cut: each rank owns some parameters as
they are, and keeps the optimizer's state of these alone. Nothing is padded, and the shares are as even as they can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.data_parallel.buckets import split_as
from shardlab.data_parallel.flat import FlatParameters


def assign_owners(sizes: Sequence[int], num_ranks: int) -> list[int]:
    """The owner of each parameter: the largest first, each to the first of the ranks that have least so far.

    No rank gets more than an even share and one parameter more (Graham 1969: longest processing time first).
    """
    owners, load = [0] * len(sizes), [0] * num_ranks
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        owners[place] = load.index(min(load))
        load[owners[place]] += sizes[place]
    return owners


class WholeParameters(FlatParameters):
    """Flat parameters that are cut between parameters: the first rank's, then the second's, and so on.

    The optimizer updates `masters`, in the parameters' own shapes. A rank that owns nothing, one of the last, has one
    number of padding: the alarm must arrive somewhere.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], **options: Any) -> None:
        super().__init__(parameters, **options)
        begin = sum(self.lengths[: dist.get_rank(self.group)])
        starts = [sum(shape.numel() for shape in self.shapes[:place]) for place in range(len(self.shapes))]
        own = [begin <= start < begin + self.shard_elements for start in starts]
        shapes = [shape for shape, is_own in zip(self.shapes, own, strict=True) if is_own]
        self._masters = [nn.Parameter(view) for view in split_as(self.master.detach(), shapes)]
        self._others = [shape for shape, is_own in zip(self.shapes, own, strict=True) if not is_own]

    def _cut(self, parameters: list[nn.Parameter], num_ranks: int) -> tuple[list[nn.Parameter], list[int]]:
        owners = assign_owners([parameter.numel() for parameter in parameters], num_ranks)
        of_rank = [[p for p, owner in zip(parameters, owners, strict=True) if owner == r] for r in range(num_ranks)]
        return [p for some in of_rank for p in some], [sum(p.numel() for p in some) or 1 for some in of_rank]

    @property
    def masters(self) -> list[nn.Parameter]:
        """This rank's parameters, or their precise copies: views of `master`."""
        return self._masters

    def candidates(self) -> list[nn.Parameter]:
        """The masters, and of what others own the shape without its memory: an optimizer refuses on all ranks alike."""
        shown = [self.master.detach().new_zeros(()).expand(shape) for shape in self._others]
        return [*self.masters, *(nn.Parameter(tensor) for tensor in shown)]

    def heads(self, full: Tensor) -> list[Tensor]:
        """The first number of each rank's stretch, as views."""
        return [stretch[:1] for stretch in full.split(self.lengths)]

    def reduce(self, full: Tensor) -> tuple[list[dist.Work], Tensor]:
        """Start to sum each rank's stretch there; (N-1)/N of the vector goes out of a rank."""
        works = [
            dist.reduce(stretch, group_dst=owner, group=self.group, async_op=True)
            for owner, stretch in enumerate(full.split(self.lengths))
        ]
        return [work for work in works if work is not None], self.own_slice(full)

    @torch.no_grad()
    def spread(self) -> list[dist.Work]:
        """Start to send each rank's new weights to all; (N-1)/N of the vector goes out of a rank."""
        if self.master.data_ptr() != self.shard.data_ptr():
            self.shard.copy_(self.master)
        works = [
            dist.broadcast(stretch, group_src=owner, group=self.group, async_op=True)
            for owner, stretch in enumerate(self.full.split(self.lengths))
        ]
        return [work for work in works if work is not None]
