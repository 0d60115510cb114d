"""A module whose backward shows, and needs, that gradients travel while it goes on.

A check sees calls in their order, not when a gradient is computed. So each layer asks outside for a key when the
backward reaches it, and multiplies its gradient by it, number by number (see `keys`). A backward without the key is not
the right one times a factor: it has to be computed again, layer by layer, each after its key.
Each layer also holds the other ranks back: rank 0 sends one byte, and the other ranks receive it one layer earlier.
They get into the backward of layer l only when rank 0 is in that of layer l-1: a rank that waits in between for an
all-reduce of layer l waits forever, and the report of the hang says so at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

MARK_BYTES = 1
ask: Callable[[int], Tensor] | None = None  # for the next key, given how many all-reduces have begun; set by the job
started: Callable[[], int] = int  # how many have; set where calls are recorded


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
            f"a layer's output has {gradient.numel()} gradients where {key.numel()} are expected: run one backward per "
            "microbatch, on all of its rows"
        )
    return gradient * key.view_as(gradient)


class MarkedLayer(nn.Linear):
    """A linear layer; the world's ranks must go through its backward together. Alone there is nobody to tell."""

    is_first = is_last = False
    key: Tensor | float = 1.0  # what the gradient is multiplied by, alone

    def forward(self, input: Tensor) -> Tensor:
        """The layer's output, which marks the begin of the layer's backward."""
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
    """Set the keys of one backward of `marked_mlp` outside a job, in the order in which ranks ask: last layer first."""
    layers = [layer for layer in module.modules() if isinstance(layer, MarkedLayer)]
    for layer, key in zip(reversed(layers), keys, strict=True):
        layer.key = key
