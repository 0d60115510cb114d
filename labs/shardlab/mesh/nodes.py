"""Map groups to nodes: rank r is on node r // L, and messages between nodes cross the slow link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardlab.costs.hardware import Accelerator
from shardlab.costs.links import Group, on_paper, ring_bandwidth


@dataclass(frozen=True)
class Position:
    """The nodes of a group: node -> the members on it."""

    members: dict[int, list[int]]

    @property
    def num_nodes(self) -> int:
        """How many nodes the group occupies."""
        return len(self.members)

    @property
    def crosses(self) -> bool:
        """Whether some members can only be reached through the network."""
        return self.num_nodes > 1

    @property
    def link(self) -> str:
        """The slowest link that a ring through the group uses; "none" for a single rank."""
        if self.crosses:
            return "InfiniBand"
        return "NVLink" if len(next(iter(self.members.values()))) > 1 else "none"


def position(ranks: Sequence[int], ranks_per_node: int) -> Position:
    """The nodes of a group. Raises ValueError for an empty group or a node without ranks."""
    if ranks_per_node < 1 or not ranks:
        raise ValueError(f"{len(ranks)} ranks on nodes of {ranks_per_node}: give at least one of each")
    members: dict[int, list[int]] = {}
    for rank in ranks:
        members.setdefault(rank // ranks_per_node, []).append(rank)
    return Position(members)


def link_bytes_per_second(ranks: Sequence[int], gpu: Accelerator) -> float:
    """Bytes per second that each rank of the group can send in a collective, from the data sheet; infinite for one
    rank.

    Between nodes, the network cards of all members on a node are used together (`costs.links`).
    """
    lies = position(ranks, gpu.per_node)
    if len(ranks) == 1:
        return float("inf")
    group = Group(len(ranks), lies.num_nodes, max(map(len, lies.members.values())))
    return ring_bandwidth(on_paper(gpu), group)
