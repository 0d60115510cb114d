"""Clip gradients by their global norm when each rank holds only a shard of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from shardlab.mesh.gradient_norm import clip_by_norm, squared_norm


@torch.no_grad()
def clip_shards(gradients: Sequence[Tensor], max_norm: float, *, group: dist.ProcessGroup | None) -> Tensor:
    """Scale this rank's gradient shards so that the global norm is at most `max_norm`. Returns the norm before that.

    Raises the same ValueError on every rank if the norm is infinite or not a number.
    """
    squares = squared_norm(gradients)
    dist.all_reduce(squares, group=group)
    norm = squares.sqrt()
    if not torch.isfinite(norm):
        raise ValueError(
            f"the norm of the gradients is {norm.item()}: a loss or gradient on some rank is not finite. "
            "Nothing was changed. Lower the learning rate or check the batch."
        )
    clip_by_norm(gradients, norm, max_norm)
    return norm
