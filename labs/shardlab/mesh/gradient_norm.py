"""The norm of gradients that are spread over ranks, and clipping by it.

Squares are summed over the ranks that hold different numbers; norms must not be. Numbers that several ranks hold
count once. Each kind of parallelism knows who holds what: this file has the arithmetic, in float64.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def squared_norm(gradients: Iterable[Tensor], device: torch.device | None = None) -> Tensor:
    """The sum of the squares of all numbers of these tensors, as one float64.

    device: where the zero of a rank without gradients is kept: other ranks add theirs to it on a GPU.
    """
    squares = [torch.linalg.vector_norm(one, dtype=torch.float64).square() for one in gradients]
    return torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64, device=device)


@torch.no_grad()
def clip_by_norm(gradients: Iterable[Tensor], norm: float | Tensor, max_norm: float) -> None:
    """Scale gradients of a whole model with this norm so that the norm is at most `max_norm`."""
    scale = max_norm / (float(norm) + 1e-6)  # torch's clip_grad_norm_ has the same 1e-6
    if scale < 1 and (scaled := list(gradients)):  # a rank whose stages are all frozen has none
        torch._foreach_mul_(scaled, scale)
