"""Many MLPs at once: rows are sorted by expert, and `sizes` has the number of rows of each. Three implementations.

Shapes: R rows, H hidden, F width of an expert, E experts, C rows of the fullest expert. up [E, H, F], down [E, F, H];
if gated, up is [E, H, 2F]: the values, then their gate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Activation = Callable[[Tensor], Tensor]
Method = Callable[[Tensor, Sequence[int], Tensor, Tensor, Activation], Tensor]


def gated(x: Tensor) -> Tensor:
    """SwiGLU, arXiv 2002.05202."""
    passing, gate = x.chunk(2, dim=-1)
    return functional.silu(gate) * passing


def by_loop(x_RH: Tensor, sizes: Sequence[int], up: Tensor, down: Tensor, activation: Activation) -> Tensor:
    """One expert after another; an expert without rows multiplies zero rows, so its gradient is zero, not missing."""
    return _Products.apply(activation(_Products.apply(x_RH, up, sizes)), down, sizes)


class _Products(torch.autograd.Function):
    """Each expert's rows times its matrix, written directly into the output, so that no concatenation is needed."""

    @staticmethod
    def forward(ctx: Any, x_RA: Tensor, weight_EAB: Tensor, sizes: Sequence[int]) -> Tensor:
        ctx.save_for_backward(x_RA, weight_EAB)
        ctx.sizes = list(sizes)
        return _by_expert(x_RA, weight_EAB, ctx.sizes)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (x_RA, weight_EAB), dy_RB = ctx.saved_tensors, gradients[0]
        of_x = _by_expert(dy_RB, weight_EAB.mT, ctx.sizes) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_x, None, None
        of_weight = torch.empty_like(weight_EAB)
        for x, dy, out in zip(x_RA.split(ctx.sizes), dy_RB.split(ctx.sizes), of_weight, strict=True):
            torch.mm(x.t(), dy, out=out)
        return of_x, of_weight, None


def _by_expert(x_RA: Tensor, weight_EAB: Tensor, sizes: list[int]) -> Tensor:
    y_RB = x_RA.new_empty(len(x_RA), weight_EAB.shape[-1])
    for x, weight, y in zip(x_RA.split(sizes), weight_EAB, y_RB.split(sizes), strict=True):
        torch.mm(x, weight, out=y)
    return y_RB


def by_batch(x_RH: Tensor, sizes: Sequence[int], up: Tensor, down: Tensor, activation: Activation) -> Tensor:
    """One batched matmul: every expert is padded with zeros to as many rows as the fullest."""
    num_experts, capacity = len(sizes), max(sizes)
    places = places_in_batch(sizes, capacity, x_RH.device)
    x_ECH = x_RH.new_zeros(num_experts * capacity, x_RH.shape[1]).index_copy(0, places, x_RH)
    y_ECH = activation(x_ECH.view(num_experts, capacity, x_RH.shape[1]) @ up) @ down
    return y_ECH.flatten(0, 1).index_select(0, places)


def by_groups(x_RH: Tensor, sizes: Sequence[int], up: Tensor, down: Tensor, activation: Activation) -> Tensor:
    """One grouped matmul, given where each expert's rows end; supports float32 and bfloat16."""
    ends = torch.tensor(sizes, device=x_RH.device).cumsum(0).int()
    return functional.grouped_mm(activation(functional.grouped_mm(x_RH, up, offs=ends)), down, offs=ends)


def places_in_batch(sizes: Sequence[int], capacity: int, device: torch.device) -> Tensor:
    """The index of each row among E * capacity rows, where every expert has the same number."""
    starts = torch.arange(len(sizes), device=device) * capacity
    counts = torch.tensor(sizes, device=device)
    shift = starts - (counts.cumsum(0) - counts)
    return torch.arange(sum(sizes), device=device) + shift.repeat_interleave(counts)


class Experts(nn.Module):
    """E MLPs H -> F -> H without biases. x_RH is sorted by expert, with `sizes` rows for each."""

    def __init__(self, num_experts: int, hidden: int, width: int, *, is_gated: bool = False, method: Method = by_loop):
        super().__init__()
        self.method, self.is_gated = method, is_gated
        self.up = nn.Parameter(torch.empty(num_experts, hidden, (2 if is_gated else 1) * width))
        self.down = nn.Parameter(torch.empty(num_experts, width, hidden))
        for weight in (self.up, self.down):
            nn.init.normal_(weight, std=0.02)

    def forward(self, x_RH: Tensor, sizes: Sequence[int]) -> Tensor:
        return self.method(x_RH, sizes, self.up, self.down, gated if self.is_gated else functional.gelu)
