"""Clip gradients by their true norm, when every rank holds only a shard of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


@torch.no_grad()
def global_norm(shards: Sequence[Tensor], *, group: dist.ProcessGroup | None) -> Tensor:
    """The Euclidean norm of what all ranks hold together: squares are summed over the ranks, norms must not be."""
    squares = [shard.to(torch.promote_types(shard.dtype, torch.float32)).square().sum() for shard in shards]
    total = torch.stack(squares).sum() if squares else torch.zeros(())
    dist.all_reduce(total, group=group)
    return total.sqrt()


@torch.no_grad()
def clip_shards(gradients: Sequence[Tensor], max_norm: float, *, group: dist.ProcessGroup | None) -> Tensor:
    """Scale the gradients of this rank's shards so that the whole has at most `max_norm`; returns the norm before.

    Raises ValueError, on every rank alike, when the norm is infinite or not a number.
    """
    norm = global_norm(gradients, group=group)
    if not torch.isfinite(norm):
        raise ValueError(
            f"the norm of the gradients is {norm.item()}: some rank's loss or gradient is not a number. "
            "Nothing was changed; lower the learning rate or look at the batch."
        )
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)  # torch's clip_grad_norm_ has the same 1e-6
    for gradient in gradients:
        gradient.mul_(scale)
    return norm
