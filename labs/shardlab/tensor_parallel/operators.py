"""Six operators that convert between whole tensors, split tensors, and tensors that must still be summed.

f and g do nothing in one direction and all-reduce in the other (arXiv 1909.08053, figure 3). Their sequence-parallel
twins all-gather in one direction and reduce-scatter in the other (arXiv 2205.05198, figure 5). In each pair, one is the
adjoint of the other: what one does in the forward, the other does in the backward.

| operator | forward | backward |
|---|---|---|
| `copy_to_tp`, f | nothing | all-reduce |
| `reduce_from_tp`, g | all-reduce | nothing |
| `gather_to_all`, f's twin | all-gather | reduce-scatter |
| `sum_and_scatter`, g's twin | reduce-scatter | all-gather |
| `gather` | all-gather | own part |
| `split` | own part | all-gather |

All raise ValueError, before anything is sent, if the ranks do not divide a size. A negative dim counts from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from shardlab.tensor_parallel.messages import (
    Group,
    all_gathered,
    all_reduced,
    own_part,
    reduce_scattered,
    start_all_reduce,
)


class _Operator(torch.autograd.Function):
    """One function in the forward, its adjoint in the backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forth: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.back = back
        return forth(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradients[0]), None, None


def copy_to_tp(x: Tensor, *, group: Group) -> Tensor:
    """f: the same x enters every rank's part of a layer. Forward: nothing. Backward: all-reduce of the gradient.

    Each rank's part of the layer contributes a part of the gradient. Earlier layers need the sum, on every rank.
    """
    return _Operator.apply(x, _nothing, lambda gradient: all_reduced(gradient, group=group))


def reduce_from_tp(x: Tensor, *, group: Group) -> Tensor:
    """g: sum x over ranks. Forward: all-reduce. Backward: nothing, since every rank has the gradient of the sum."""
    return _Operator.apply(x, lambda x: all_reduced(x, group=group), _nothing)


class _SumInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.mark_dirty(x)
        start_all_reduce(x, group=group)()
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def reduce_from_tp_in_place(x: Tensor, *, group: Group) -> Tensor:
    """g in place, for an x that is not used elsewhere, such as a fresh product. Copies only if x is not contiguous."""
    if not x.is_contiguous():
        return reduce_from_tp(x, group=group)
    return _SumInPlace.apply(x, group)


def gather_to_all(x: Tensor, dim: int, *, group: Group) -> Tensor:
    """f's twin: gather the ranks' parts of x as the input of every rank's part of a layer.

    Forward: all-gather. Backward: reduce-scatter, since each rank's part of the layer contributes to the gradient.
    """
    return _Operator.apply(
        x, lambda x: all_gathered(x, dim, group=group), lambda gradient: reduce_scattered(gradient, dim, group=group)
    )


def sum_and_scatter(x: Tensor, dim: int, *, group: Group) -> Tensor:
    """g's twin: sum x over ranks, and keep only this rank's part. Forward: reduce-scatter. Backward: all-gather."""
    return _Operator.apply(
        x, lambda x: reduce_scattered(x, dim, group=group), lambda gradient: all_gathered(gradient, dim, group=group)
    )


def gather(x: Tensor, dim: int, *, group: Group) -> Tensor:
    """Gather the ranks' parts of x for work that every rank repeats. Backward: each rank takes its own part.

    The gradient of the whole is already complete on every rank: summing it would make it t times too large.
    """
    return _Operator.apply(
        x, lambda x: all_gathered(x, dim, group=group), lambda gradient: own_part(gradient, dim, group=group)
    )


def split(x: Tensor, dim: int, *, group: Group) -> Tensor:
    """This rank's part of an x that is the same on every rank. Backward: all-gather, for the gradient of all of x."""
    return _Operator.apply(
        x, lambda x: own_part(x, dim, group=group), lambda gradient: all_gathered(gradient, dim, group=group)
    )


def _nothing(x: Tensor) -> Tensor:
    return x.view_as(x)
