"""f and g: two functions that do nothing in one direction and add up in the other (arXiv 1909.08053, figure 3).

They are each other's adjoint: what one does in the forward, the other does in the backward.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _ToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _summed(gradients[0], ctx.group), None


class _SumOfAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        return _summed(x, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def to_all(x: Tensor, *, group: dist.ProcessGroup | None) -> Tensor:
    """f: the same x enters every rank's part. Forward nothing, backward an all-reduce of its gradient.

    Each rank's part gives a part of the gradient; the layers before need the sum, and it is the same on every rank.
    """
    return _ToAll.apply(x, group)  # type: ignore[return-value]


def sum_of_all(x: Tensor, *, group: dist.ProcessGroup | None) -> Tensor:
    """g: the ranks' x add up. Forward an all-reduce, backward nothing: every rank has the gradient of the sum."""
    return _SumOfAll.apply(x, group)  # type: ignore[return-value]


def _summed(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    if dist.get_world_size(group) == 1:
        return x.clone()
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total
