"""Bytes sent, by axis of the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from shardlab.mesh.process_groups import ProcessGroups


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
