"""The groups that a training needs beyond one for each axis."""

from __future__ import annotations

from typing import NamedTuple

import torch.distributed as dist

from shardlab.costs.models.model import divisors
from shardlab.mesh.process_groups import EXPERTS, GRADIENTS, ProcessGroups, by_enumeration, with_groups

STAGE = ("tp", "cp", "dp")  # all ranks of a stage: each has tokens that no other has, where tp ranks split them
WORLD = ("tp", "cp", "dp", "pp")


class Sharing(NamedTuple):
    """Ranks over which some parameters are cut by ZeRO, and those that hold the same slice (HSDP; None for nobody).

    all: both together, over which gradients are summed.
    """

    all: dist.ProcessGroup
    cut: dist.ProcessGroup
    replicas: dist.ProcessGroup | None


def training_groups(groups: ProcessGroups, *, has_experts: bool) -> ProcessGroups:
    """Those of a mesh and what a training needs beside them; all ranks of the world call it alike."""
    of_experts = [*EXPERTS, STAGE] if has_experts else []
    return with_groups(groups, GRADIENTS, *of_experts, WORLD)


def sharing(groups: ProcessGroups, axes: tuple[str, ...], num_replicas: int) -> Sharing:
    """The ranks of `axes`, cut into so many groups of neighbours; all ranks of the world call it alike.

    Raises ValueError, on every rank alike, when the ranks do not divide.
    """
    whole = groups.of(*axes)
    if num_replicas == 1:
        return Sharing(whole, whole, None)
    size = dist.get_world_size(whole)
    if size % num_replicas:
        raise ValueError(
            f"{num_replicas} replicas do not divide the {size} ranks of {'-'.join(axes)}: use one of {divisors(size)}"
        )
    each = size // num_replicas
    by_group = groups.mesh.groups(*axes)
    cut = [ranks[first : first + each] for ranks in by_group for first in range(0, size, each)]
    same = [ranks[place::each] for ranks in by_group for place in range(each)]
    return Sharing(whole, by_enumeration(cut), by_enumeration(same))
