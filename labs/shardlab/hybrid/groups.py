"""Process groups that training needs in addition to one per axis."""

from __future__ import annotations

from typing import NamedTuple

import torch.distributed as dist

from shardlab.costs.models.model import divisors
from shardlab.mesh.process_groups import EXPERTS, GRADIENTS, ProcessGroups, by_enumeration, with_groups

STAGE = ("tp", "cp", "dp")  # all ranks of a stage: where tp ranks split the tokens, each rank has different ones
WORLD = ("tp", "cp", "dp", "pp")


class Sharing(NamedTuple):
    """The ranks that share some parameters under ZeRO.

    all: all of them; gradients are summed over these. cut: the ranks over which ZeRO shards the parameters.
    replicas: the ranks that hold the same shard (HSDP), or None if there is only one copy.
    """

    all: dist.ProcessGroup
    cut: dist.ProcessGroup
    replicas: dist.ProcessGroup | None


def training_groups(groups: ProcessGroups, *, has_experts: bool) -> ProcessGroups:
    """A mesh's groups plus those that training needs. Collective: every rank of the world must call it."""
    of_experts = [*EXPERTS, STAGE] if has_experts else []
    return with_groups(groups, GRADIENTS, *of_experts, WORLD)


def sharing(groups: ProcessGroups, axes: tuple[str, ...], num_replicas: int) -> Sharing:
    """Divide the ranks of `axes` into `num_replicas` groups of neighbors. Every rank of the world must call it.

    Raises the same ValueError on every rank if `num_replicas` does not divide the number of ranks.
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
