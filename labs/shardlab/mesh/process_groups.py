"""The groups of a mesh as torch's process groups, on every rank in one order.

A process group is made by all ranks of the world together, members or not: a rank that skips one, or makes two in
another order, waits forever. So the order is data, the same list on every rank, and is agreed upon before the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import _set_pg_timeout

from shardlab.mesh.axes import DENSE, Mesh
from shardlab.ranks.agreement import same_on_all

Axes = tuple[str, ...]
GRADIENTS: Axes = ("dp", "cp")
MODEL: Axes = ("tp", "pp")  # one copy of the model: a norm is summed over it
TRAINING: tuple[Axes, ...] = (GRADIENTS, MODEL)
EXPERTS: tuple[Axes, ...] = (("etp",), ("ep",), ("edp",))


@dataclass(frozen=True)
class ProcessGroups:
    """The groups of this rank by axes, and torch's DeviceMesh of tp, cp, dp and pp."""

    mesh: Mesh
    device_mesh: DeviceMesh
    by_axes: dict[Axes, dist.ProcessGroup]

    def of(self, *axes: str) -> dist.ProcessGroup:
        """This rank's group of these axes; raises ValueError when it was not made: asking makes none."""
        for known, group in self.by_axes.items():
            if set(known) == set(axes):
                return group
        made = ", ".join("-".join(known) for known in self.by_axes)
        raise ValueError(f"no group of {'-'.join(axes)} was made: name it in create_process_groups; there are {made}")


def create_process_groups(mesh: Mesh, *, device: str = "cpu", more: Sequence[Axes] = TRAINING) -> ProcessGroups:
    """Make the groups of every axis, and of the axes in `more` together. All ranks of the world call it.

    1. agree on the mesh  2. torch's DeviceMesh makes one group per axis  3. the others follow, by enumeration.
    Those of etp, ep and edp are made where the mesh counts experts apart.
    Raises ValueError, on every rank alike, when the world has another size or ranks bring different meshes.
    """
    if dist.get_world_size() != mesh.world:
        raise ValueError(
            f"the mesh has {mesh.world} ranks (tp {mesh.tp} * cp {mesh.cp} * dp {mesh.dp} * pp {mesh.pp}), the world "
            f"{dist.get_world_size()}: start {mesh.world}"
        )
    extra = [*more, *(EXPERTS if mesh.counts_experts_apart else ())]
    if not same_on_all(f"{mesh} {extra}", group=None):
        raise ValueError(
            "the ranks bring different meshes, and would make their groups in different orders: "
            f"give them all the same one; rank {dist.get_rank()} has {mesh} {extra}"
        )

    outermost_first = list(reversed(mesh.dense.axes))
    names = tuple(name for name, _ in outermost_first)
    device_mesh = init_device_mesh(device, tuple(size for _, size in outermost_first), mesh_dim_names=names)
    by_axes: dict[Axes, dist.ProcessGroup] = {(name,): device_mesh.get_group(name) for name in DENSE}
    if (patience := _patience()) is not None:
        for group in by_axes.values():
            _set_pg_timeout(patience, group)

    for axes in extra:
        by_axes[axes] = by_enumeration(mesh.groups(*axes))
    return ProcessGroups(mesh, device_mesh, by_axes)


def with_groups(groups: ProcessGroups, *more: Axes) -> ProcessGroups:
    """The same groups and those of `more`, made where they are missing; all ranks of the world call it alike."""
    by_axes = dict(groups.by_axes)
    for axes in more:
        if not any(set(known) == set(axes) for known in by_axes):
            by_axes[axes] = by_enumeration(groups.mesh.groups(*axes))
    return ProcessGroups(groups.mesh, groups.device_mesh, by_axes)


def by_enumeration(groups: list[list[int]]) -> dist.ProcessGroup:
    """This rank's one of some groups that hold every rank once; all of them are made by all ranks, in this order."""
    mine, _ = dist.new_subgroups_by_enumeration(groups, timeout=_patience())
    assert isinstance(mine, dist.ProcessGroup)
    return mine


def _patience() -> timedelta | None:
    """How long a call of the world waits for other ranks; None for a backend that does not wait.

    A new group of torch's does not take it over: under gloo it waits 30 minutes for a rank that is silent.
    """
    world = dist.group.WORLD
    assert world is not None
    options = getattr(world._get_backend(world._device_types[0]), "options", None)
    return getattr(options, "_timeout", None)
