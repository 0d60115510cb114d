"""The messages of context parallelism, each begun and finished apart. A group of one rank sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.meter import place

place.hide(__file__)  # the meter names the method that sends

Group = dist.ProcessGroup | None
Wait = Callable[[], list[Tensor]]
Pass = Callable[[Sequence[Tensor], Group], Wait]


def pass_right(tensors: Sequence[Tensor], group: Group) -> Wait:
    """Start to send tensors to the right neighbour; what is returned waits, and returns those of the left one.

    tensors: of the same shapes and dtypes on every rank, contiguous; they must stay as they are until then.
    """
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    arriving = [torch.empty_like(one) for one in tensors]
    operations = [dist.P2POp(dist.irecv, one, group=group, group_peer=(rank - 1) % size) for one in arriving]
    operations += [dist.P2POp(dist.isend, one, group=group, group_peer=(rank + 1) % size) for one in tensors]
    works = dist.batch_isend_irecv(operations)

    return lambda: _waited(works, arriving, tensors)


def _waited(works: list[dist.Work], arrived: list[Tensor], _kept: Sequence[Tensor]) -> list[Tensor]:
    """What has arrived; what is being sent stays alive until then."""
    for work in works:
        work.wait()
    return arrived


def all_to_all(x: Tensor, *, group: Group) -> Tensor:
    """x[r] goes to rank r; result[r] comes from rank r. Its adjoint is itself: a backward is an all-to-all, too."""
    return _AllToAll.apply(x, group) if dist.get_world_size(group) > 1 else x  # type: ignore[return-value]


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
