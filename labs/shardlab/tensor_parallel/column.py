"""The matrix product of a column layer, with communication hidden behind computation.

The backward of `linear(copy_to_tp(x))` would compute both gradients and then send one. Other layers wait only for the
input gradient, so it is computed first and summed while the weight gradient is computed (Megatron-LM calls this
`LinearWithGradAccumulationAndAsyncCommunication`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from shardlab.tensor_parallel.messages import (
    Group,
    all_gathered,
    start_all_gather,
    start_all_reduce,
    start_reduce_scatter,
)


class _ColumnLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, sequence_dim: int | None, group: Group
    ) -> Tensor:
        ctx.sequence_dim, ctx.group = sequence_dim, group
        ctx.save_for_backward(x if weight.requires_grad else None, weight)
        whole = x if sequence_dim is None else all_gathered(x, sequence_dim, group=group)
        return functional.linear(whole, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """1. start gathering the input again  2. compute the input gradient and start summing it
        3. compute the weight gradient meanwhile  4. wait for the sum.
        """
        (gradient,), (x, weight), sequence_dim = gradients, ctx.saved_tensors, ctx.sequence_dim
        needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad

        gathering = None
        if needs_weight and sequence_dim is not None:
            gathering = start_all_gather(x, sequence_dim, group=ctx.group)

        summing = None
        if needs_x:
            of_x = gradient @ weight
            if sequence_dim is None:
                summing = start_all_reduce(of_x, group=ctx.group)
            else:
                summing = start_reduce_scatter(of_x, sequence_dim, group=ctx.group)

        of_weight = of_bias = None
        rows = gradient.flatten(0, -2)
        if needs_weight:
            of_weight = rows.t() @ (x if gathering is None else gathering()).flatten(0, -2)
        if needs_bias:
            of_bias = rows.sum(0)

        return None if summing is None else summing(), of_weight, of_bias, None, None


def column_linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, sequence_dim: int | None, group: Group) -> Tensor:
    """linear(copy_to_tp(x), weight, bias), or with a sequence_dim linear(gather_to_all(x, sequence_dim), ...).

    If the sequence is split, only this rank's part is kept, and it is gathered again in the backward. This takes 1/t of
    the bytes, at the cost of one more all-gather (arXiv 2205.05198, section 4.2.2).
    """
    return _ColumnLinear.apply(x, weight, bias, sequence_dim, group)
