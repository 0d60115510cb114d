"""Create the groups of a mesh as torch process groups, in the same order on every rank.

All ranks of the world must create every process group together, members or not: a rank that skips one, or creates two
in a different order, waits forever. So the order is data, the same list on every rank, and the ranks check that they
agree on it before they create the first group.
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
MODEL: Axes = ("tp", "pp")  # the ranks of one copy of the model, over which norms are summed
TRAINING: tuple[Axes, ...] = (GRADIENTS, MODEL)
EXPERTS: tuple[Axes, ...] = (("etp",), ("ep",), ("edp",))


@dataclass(frozen=True)
class ProcessGroups:
    """The groups of this rank by axes, and torch's DeviceMesh of tp, cp, dp and pp."""

    mesh: Mesh
    device_mesh: DeviceMesh
    by_axes: dict[Axes, dist.ProcessGroup]

    def of(self, *axes: str) -> dist.ProcessGroup:
        """This rank's group of these axes; raises ValueError if it was not created (this method creates none)."""
        for known, group in self.by_axes.items():
            if set(known) == set(axes):
                return group
        made = ", ".join("-".join(known) for known in self.by_axes)
        raise ValueError(f"there is no group of {'-'.join(axes)}: name it in create_process_groups; there are {made}")


def create_process_groups(mesh: Mesh, *, device: str = "cpu", more: Sequence[Axes] = TRAINING) -> ProcessGroups:
    """Create the groups of every axis, and of each combination of axes in `more`. Call it on all ranks of the world.

    1. agree on the mesh  2. torch's DeviceMesh creates one group per axis  3. create the others by enumeration.
    Groups of etp, ep and edp are created if experts have separate groups.
    Raises ValueError on every rank when the world has a different size or ranks pass different meshes.
    """
    if dist.get_world_size() != mesh.world:
        raise ValueError(
            f"the mesh has {mesh.world} ranks (tp {mesh.tp} * cp {mesh.cp} * dp {mesh.dp} * pp {mesh.pp}), but the "
            f"world has {dist.get_world_size()}: start {mesh.world}"
        )
    extra = [*more, *(EXPERTS if mesh.counts_experts_apart else ())]
    if not same_on_all(f"{mesh} {extra}", group=None):
        raise ValueError(
            "the ranks have different meshes, and would create their groups in different orders: "
            f"give all of them the same one; rank {dist.get_rank()} has {mesh} {extra}"
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
    """The same groups plus those of `more`, created if missing; call it on all ranks with the same arguments."""
    by_axes = dict(groups.by_axes)
    for axes in more:
        if not any(set(known) == set(axes) for known in by_axes):
            by_axes[axes] = by_enumeration(groups.mesh.groups(*axes))
    return ProcessGroups(groups.mesh, groups.device_mesh, by_axes)


def by_enumeration(groups: list[list[int]]) -> dist.ProcessGroup:
    """Create groups that together contain every rank once, on all ranks in this order; returns this rank's group."""
    mine, _ = dist.new_subgroups_by_enumeration(groups, timeout=_patience())
    assert isinstance(mine, dist.ProcessGroup)
    return mine


def _patience() -> timedelta | None:
    """The timeout of collectives on the world; None for a backend without one.

    A new torch group does not inherit it: with gloo it would wait 30 minutes for a silent rank.
    """
    world = dist.group.WORLD
    assert world is not None
    options = getattr(world._get_backend(world._device_types[0]), "options", None)
    return getattr(options, "_timeout", None)
