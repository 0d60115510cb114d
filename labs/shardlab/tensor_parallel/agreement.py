"""Check, with 16 bytes, that all ranks of a group split the same model in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

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
