"""Clip gradients by their true norm, when every rank holds only a shard of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.mesh.gradient_norm import clip_by_norm, squared_norm


@torch.no_grad()
def clip_shards(gradients: Sequence[Tensor], max_norm: float, *, group: dist.ProcessGroup | None) -> Tensor:
    """Scale the gradients of this rank's shards so that the whole has at most `max_norm`; returns the norm before.

    Raises ValueError, on every rank alike, when the norm is infinite or not a number.
    """
    squares = squared_norm(gradients)
    dist.all_reduce(squares, group=group)
    norm = squares.sqrt()
    if not torch.isfinite(norm):
        raise ValueError(
            f"the norm of the gradients is {norm.item()}: some rank's loss or gradient is not a number. "
            "Nothing was changed; lower the learning rate or look at the batch."
        )
    clip_by_norm(gradients, norm, max_norm)
    return norm
