"""Check, with 16 bytes, that all ranks of a group split the same model in the same way and use the same batch."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from shardlab.ranks.agreement import first_difference
from shardlab.tensor_parallel.messages import Group


def check_same_model(module: nn.Module, plan: Mapping[str, Any], seed: int, *, group: Group) -> None:
    """Raise the same ValueError on every rank if names, shapes, dtypes, plan or seed differ from the first rank's."""
    lines = [f"seed {seed}", *(f"{path}: {split}" for path, split in plan.items())]
    lines += [f"{name} {list(one.shape)} {one.dtype}" for name, one in module.named_parameters()]
    if found := first_difference(lines, group=group):
        raise ValueError(
            f"rank {found.rank} has a different model or plan from rank 0: {found.line}, but rank 0 has "
            f"{found.line_of_first}. Build the same model and the same plan on every rank."
        )


def check_same_batch(*tensors: Tensor, group: Group) -> None:
    """Raise the same ValueError on every rank if shapes, dtypes or values differ from those of the group's first rank.

    Tensor-parallel ranks work on one batch together. If the lengths differ, the ranks wait for each other forever. If
    the tokens differ, they silently train on none of the batches. Call this before the first step.
    """
    lines = [
        f"input {number}: {list(one.shape)} {one.dtype}, checksum {_checksum(one):08x}"
        for number, one in enumerate(tensors)
    ]
    if found := first_difference(lines, group=group):
        raise ValueError(
            f"rank {found.rank} has a different batch from rank 0: {found.line}, but rank 0 has {found.line_of_first}. "
            "Give every tensor-parallel rank the same batch; different batches are for data parallelism."
        )


def _checksum(tensor: Tensor) -> int:
    return zlib.crc32(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
