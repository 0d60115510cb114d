"""Bytes that were sent, by axis of the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from shardlab.mesh.process_groups import ProcessGroups


def sent_by_axis(events: Sequence[Any], groups: ProcessGroups) -> dict[str, float]:
    """Bytes that this rank sent on each axis, from the meter's events; calls of no group of the mesh under "other"."""
    of_group: dict[tuple[int, ...], str] = {}
    for axes, group in groups.by_axes.items():  # single axes come first: with cp = 1, dp is dp and not dp-cp
        of_group.setdefault(tuple(dist.get_process_group_ranks(group)), "-".join(axes))
    sent: dict[str, float] = {}
    for event in events:
        axis = of_group.get(event.members, "other")
        sent[axis] = sent.get(axis, 0.0) + event.sent_bytes
    return sent
