"""The messages of tensor parallelism. Starting and waiting are separate calls, so that work can be done in between.

`started = start_all_reduce(x, group=group)` sends; `started()` waits and returns the result. A group of one rank sends
nothing. t is the number of ranks in the group. Tensors may have any memory layout.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.costs.models.model import divisors
from shardlab.meter import place

place.hide(__file__)  # so that the meter reports the operator or layer that sends

Group = dist.ProcessGroup | None
Started = Callable[[], Tensor]


def check_divisible(number: int, what: str, *, group: Group) -> None:
    """Raise ValueError, listing numbers that work, if the ranks do not divide a number of `what`."""
    size = dist.get_world_size(group)
    if number % size or number == 0:
        near = [multiple for multiple in (number // size * size, (number // size + 1) * size) if multiple]
        raise ValueError(
            f"{what} {number} cannot be split over {size} ranks: use {' or '.join(map(str, near))}, or a "
            f"tensor-parallel size among {divisors(number) if number else [1]}"
        )


def own_part(x: Tensor, dim: int, *, group: Group) -> Tensor:
    """This rank's equal part of x along `dim`, as a copy, because a view would keep the whole tensor alive.

    Raises ValueError if the ranks do not divide the size.
    """
    check_divisible(x.shape[dim], f"dimension {dim} of", group=group)
    part = x.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)]
    return part.clone(memory_format=torch.contiguous_format)


def all_reduced(x: Tensor, *, group: Group) -> Tensor:
    """The sum over all ranks, in new memory: x belongs to the caller and may be only a view."""
    return start_all_reduce(x.clone(memory_format=torch.contiguous_format), group=group)()


def all_gathered(x: Tensor, dim: int, *, group: Group) -> Tensor:
    """The ranks' parts concatenated along `dim`."""
    return start_all_gather(x, dim, group=group)()


def reduce_scattered(x: Tensor, dim: int, *, group: Group) -> Tensor:
    """This rank's part, along `dim`, of the sum over all ranks."""
    return start_reduce_scatter(x, dim, group=group)()


def start_all_reduce(x: Tensor, *, group: Group) -> Started:
    """The sum over all ranks, in place if x is contiguous."""
    total = x.contiguous()
    if dist.get_world_size(group) == 1:
        return lambda: total
    work = dist.all_reduce(total, group=group, async_op=True)
    return lambda: _waited(work, total)


def start_all_gather(x: Tensor, dim: int, *, group: Group) -> Started:
    """The ranks' parts concatenated along `dim`, t times as large."""
    size = dist.get_world_size(group)
    if size == 1:
        return lambda: x
    x = x.contiguous()
    parts = x.new_empty(size * x.shape[0], *x.shape[1:])
    work = dist.all_gather_single(parts, x, group=group, async_op=True)

    def result() -> Tensor:
        _waited(work, parts, x)
        return parts if dim == 0 else torch.cat(parts.chunk(size), dim)

    return result


def start_reduce_scatter(x: Tensor, dim: int, *, group: Group) -> Started:
    """This rank's part, along `dim`, of the sum over all ranks. Raises ValueError if the ranks do not divide it."""
    check_divisible(x.shape[dim], f"dimension {dim} of", group=group)
    size = dist.get_world_size(group)
    if size == 1:
        return lambda: x
    parts = torch.cat(x.chunk(size, dim)) if dim else x.contiguous()  # one part per rank
    total = torch.empty_like(parts.chunk(size)[0])
    work = dist.reduce_scatter_single(total, parts, group=group, async_op=True)
    return lambda: _waited(work, total, parts)


def _waited(work: dist.Work | None, result: Tensor, *_kept: Tensor) -> Tensor:
    """The result once it has arrived. The sent tensors are kept alive until then."""
    if work is not None:
        work.wait()
    return result
