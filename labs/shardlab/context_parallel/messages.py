"""The messages of context parallelism. A group of one rank sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.meter import place

place.hide(__file__)  # so that the meter reports the method that sends

Group = dist.ProcessGroup | None


class Passing(Protocol):
    """Tensors in transit to the right neighbor, and from the left neighbor to this rank."""

    def arrived(self) -> list[Tensor]:
        """Wait for the left neighbor's tensors."""
        ...

    def sent(self) -> None:
        """Wait until the sent tensors may be changed or freed. They are no longer referenced here."""
        ...


Pass = Callable[[Sequence[Tensor], Group], Passing]


def pass_right(tensors: Sequence[Tensor], group: Group) -> Passing:
    """Start sending tensors to the right neighbor and receiving the left neighbor's.

    tensors: contiguous, with the same shapes and dtypes on every rank. Do not change them before they are sent.
    """
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    arriving = [torch.empty_like(one) for one in tensors]
    operations = [dist.P2POp(dist.irecv, one, group=group, group_peer=(rank - 1) % size) for one in arriving]
    operations += [dist.P2POp(dist.isend, one, group=group, group_peer=(rank + 1) % size) for one in tensors]
    return _Passing(dist.batch_isend_irecv(operations), arriving, list(tensors))


class _Passing:
    def __init__(self, works: list[dist.Work], arriving: list[Tensor], leaving: list[Tensor]) -> None:
        each = len(works) == 2 * len(arriving)  # gloo; NCCL returns one work for all, which can be waited on twice
        self._receives = works[: len(arriving)] if each else works
        self._sends = works[len(arriving) :] if each else works
        self._arriving, self._leaving = arriving, leaving

    def arrived(self) -> list[Tensor]:
        works, self._receives = self._receives, []
        _wait(works)
        return self._arriving

    def sent(self) -> None:
        works, self._sends = self._sends, []
        _wait(works)
        self._leaving = []


def _wait(works: list[dist.Work]) -> None:
    for work in works:
        work.wait()


def all_to_all(x: Tensor, *, group: Group) -> Tensor:
    """Send x[r] to rank r; result[r] comes from rank r. It is its own adjoint: the backward is an all-to-all too."""
    return _AllToAll.apply(x, group) if dist.get_world_size(group) > 1 else x


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return _exchanged(x, group)

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, None]:
        return _exchanged(gradients[0], ctx.group), None


def _exchanged(x: Tensor, group: Group) -> Tensor:
    x = x.contiguous()
    result = torch.empty_like(x)
    dist.all_to_all_single(result, x, group=group)
    return result


def all_gathered(x: Tensor, *, group: Group) -> Tensor:
    """x of every rank: [c, *x.shape]."""
    size = dist.get_world_size(group)
    if size == 1:
        return x.unsqueeze(0)
    parts = x.new_empty(size * x.shape[0], *x.shape[1:])
    dist.all_gather_single(parts, x.contiguous(), group=group)
    return parts.unflatten(0, (size, -1))


def reduce_scattered(parts: Tensor, *, group: Group) -> Tensor:
    """The sum over all ranks of their parts[rank]."""
    if dist.get_world_size(group) == 1:
        return parts[0]
    total = torch.empty_like(parts[0], memory_format=torch.contiguous_format)
    dist.reduce_scatter_single(total, parts.contiguous().flatten(0, 1), group=group)
    return total
