"""A module whose backward shows, and needs, that gradients travel while it goes on.

A check sees calls in their order, not when a gradient is computed. So each layer leaves a mark when the backward
reaches it, an all-reduce of one byte that nobody waits for: the group numbers it between the answer's own calls.
And each layer holds the others back: rank 0 sends one byte, and the other ranks receive it one layer earlier. They get
into the backward of layer l only when rank 0 is in that of layer l-1: who waits in between for an all-reduce of layer l
waits for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

MARK_BYTES = 1
_marks: list[Any] = []  # their handles: a collective must not lose its tensor


class _Mark(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: MarkedLayer) -> Tensor:
        ctx.layer = layer
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        mark = torch.zeros(MARK_BYTES, dtype=torch.uint8)
        _marks.append(dist.all_reduce(mark.clone(), async_op=True))
        if dist.get_rank() > 0 and not ctx.layer.is_first:
            dist.recv(mark, src=0)
        if dist.get_rank() == 0 and not ctx.layer.is_last:
            for rank in range(1, dist.get_world_size()):
                dist.send(mark, dst=rank)
        return gradients[0], None


class MarkedLayer(nn.Linear):
    """A linear layer; the world's ranks must go through its backward together. Alone there is nobody to tell."""

    is_first = is_last = False

    def forward(self, input: Tensor) -> Tensor:
        """The layer's output, which marks the begin of the layer's backward."""
        output = super().forward(input)
        return _Mark.apply(output, self) if dist.is_initialized() else output  # type: ignore[return-value]


def marked_mlp(widths: Sequence[int]) -> nn.Module:
    """`trained.mlp` with marks: parameters "0.weight", "0.bias", "2.weight", …"""
    linears = [MarkedLayer(width_in, width_out) for width_in, width_out in pairwise(widths)]
    linears[0].is_first = linears[-1].is_last = True
    layers = [layer for linear in linears for layer in (linear, nn.ReLU())]
    return nn.Sequential(*layers[:-1])
