"""A module whose backward proves that gradients are communicated while the backward is still running.

A check sees the order of calls, but not when a gradient is computed. So when the backward reaches a layer, the layer
requests a key from the supervisor and multiplies its gradient by it elementwise (see `keys`). A backward without keys
is not just wrong by a factor: it would have to be recomputed layer by layer, each after its key.
Each layer also delays the other ranks: rank 0 sends one byte, which they receive one layer earlier. They enter the
backward of layer l only when rank 0 is in that of layer l-1, so a rank that waits in between for an all-reduce of
layer l waits forever, and the hang report says so immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

MARK_BYTES = 1
ask: Callable[[int], Tensor] | None = None  # returns the next key, given the started all-reduces; set by the job
started: Callable[[], int] = int  # returns that number; set where calls are recorded


class _Mark(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: MarkedLayer) -> Tensor:
        ctx.layer = layer
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        mark = torch.zeros(MARK_BYTES, dtype=torch.uint8)
        if dist.get_rank() > 0 and not ctx.layer.is_first:
            dist.recv(mark, src=0)
        if dist.get_rank() == 0 and not ctx.layer.is_last:
            for rank in range(1, dist.get_world_size()):
                dist.send(mark, dst=rank)
        return gradients[0] if ask is None else _locked(gradients[0], ask(started())), None


def _locked(gradient: Tensor, key: Tensor) -> Tensor:
    if key.numel() != gradient.numel():
        raise ValueError(
            f"a layer's output has {gradient.numel()} gradients, expected {key.numel()}: run one backward per "
            "microbatch, on all of its rows"
        )
    return gradient * key.view_as(gradient)


class MarkedLayer(nn.Linear):
    """A linear layer whose backward the world's ranks must run together. Without ranks, it only applies its key."""

    is_first = is_last = False
    key: Tensor | float = 1.0  # multiplies the gradient when there are no ranks

    def forward(self, input: Tensor) -> Tensor:
        """Return the layer's output, with a mark for the start of its backward."""
        output = super().forward(input)
        if dist.is_initialized():
            return _Mark.apply(output, self)
        key = self.key
        output.register_hook(lambda gradient: gradient * key)
        return output


def marked_mlp(widths: Sequence[int]) -> nn.Module:
    """`trained.mlp` with marks: parameters "0.weight", "0.bias", "2.weight", …"""
    linears = [MarkedLayer(width_in, width_out) for width_in, width_out in pairwise(widths)]
    linears[0].is_first = linears[-1].is_last = True
    layers = [layer for linear in linears for layer in (linear, nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def set_keys(module: nn.Module, keys: Sequence[Tensor]) -> None:
    """Set the keys of one backward of `marked_mlp` outside a job, in the order of requests: last layer first."""
    layers = [layer for layer in module.modules() if isinstance(layer, MarkedLayer)]
    for layer, key in zip(reversed(layers), keys, strict=True):
        layer.key = key
