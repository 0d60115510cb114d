"""The norm of gradients that are distributed over ranks, and clipping by it.

Sum squares, not norms, over the ranks that hold different numbers; numbers that several ranks hold count once. Each
kind of parallelism knows which ranks hold what; this file has only the arithmetic, in float64.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor


@torch.no_grad()
def squared_norm(gradients: Iterable[Tensor], device: torch.device | None = None) -> Tensor:
    """The sum of squares of all numbers in these tensors, as one float64.

    device: for the zero of a rank without gradients, since other ranks may add theirs to it on a GPU.
    """
    squares = [torch.linalg.vector_norm(one, dtype=torch.float64).square() for one in gradients]
    return torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64, device=device)


@torch.no_grad()
def clip_by_norm(gradients: Iterable[Tensor], norm: float | Tensor, max_norm: float) -> None:
    """Scale gradients in place so that the whole model's norm, given as `norm`, becomes at most `max_norm`."""
    scale = max_norm / (float(norm) + 1e-6)  # torch's clip_grad_norm_ has the same 1e-6
    if scale < 1 and (scaled := list(gradients)):  # a rank with only frozen stages has no gradients
        torch._foreach_mul_(scaled, scale)


@torch.no_grad()
def clip_shards(
    gradients: list[Tensor], max_norm: float, *, device: torch.device, group: dist.ProcessGroup | None
) -> None:
    """Scale this rank's gradient shards so that the global norm is at most `max_norm`.

    Raises the same ValueError on every rank if the norm is infinite or not a number.
    """
    squares = squared_norm(gradients, device)
    dist.all_reduce(squares, group=group)
    norm = squares.sqrt()
    if not torch.isfinite(norm):
        raise ValueError(
            f"the norm of the gradients is {norm.item()}: a loss or gradient on some rank is not finite. "
            "Nothing was changed. Lower the learning rate or check the batch."
        )
    clip_by_norm(gradients, norm, max_norm)
