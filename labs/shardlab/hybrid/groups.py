"""Process groups that training needs in addition to one per axis, and the bytes that a rank sent in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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


def sent_by_axis(events: Sequence[Any], groups: ProcessGroups) -> dict[str, float]:
    """Bytes this rank sent on each axis, from the meter's events. Calls in any other group count as "other".

    An axis is identified by its ranks. If two have the same ranks (dp and dp-cp with cp = 1; ep and tp with etp = 1 and
    ep = tp), both are counted under the first name: tp, cp, dp, pp, then groups over several axes, then expert groups.
    """
    of_group = {tuple(dist.get_process_group_ranks(groups.by_axes[axes])): name for axes, name in names(groups).items()}
    sent: dict[str, float] = {}
    for event in events:
        axis = of_group.get(event.members, "other")
        sent[axis] = sent.get(axis, 0.0) + event.sent_bytes
    return sent


def names(groups: ProcessGroups) -> dict[tuple[str, ...], str]:
    """The name under which each group's bytes are counted."""
    first: dict[tuple[int, ...], str] = {}
    found = {}
    for axes, group in groups.by_axes.items():  # single axes come first: with cp = 1, dp is "dp", not "dp-cp"
        found[axes] = first.setdefault(tuple(dist.get_process_group_ranks(group)), "-".join(axes))
    return found
