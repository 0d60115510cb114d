"""Check that all ranks pass the same values, with a 16-byte checksum, before a difference becomes a hang."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist


class Difference(NamedTuple):
    """A rank of the group whose line differs from the first rank's, and both lines."""

    rank: int
    line: str
    line_of_first: str


def same_on_all(text: str, *, group: dist.ProcessGroup | None) -> bool:
    """Whether every rank of the group passes the same text, compared by checksum; every rank gets the same answer."""
    number = zlib.crc32(text.encode())
    device = dist.distributed_c10d._get_object_coll_device(group)
    extremes = torch.tensor([number, -number], device=device)
    dist.all_reduce(extremes, dist.ReduceOp.MAX, group=group)
    highest, lowest = extremes[0].item(), -extremes[1].item()
    return highest == lowest


def first_difference(lines: Sequence[str], *, group: dist.ProcessGroup | None) -> Difference | None:
    """The first line in which a rank differs from the group's first rank, or None; sends lines only on a mismatch."""
    if same_on_all("\n".join(lines), group=group):
        return None
    by_rank: list[list[str]] = [[] for _ in range(dist.get_world_size(group))]
    dist.all_gather_object(by_rank, list(lines), group=group)
    rank, theirs = next((rank, theirs) for rank, theirs in enumerate(by_rank) if theirs != by_rank[0])
    longest = max(len(theirs), len(by_rank[0]))
    pairs = ([*some, *["nothing"] * longest][:longest] for some in (theirs, by_rank[0]))
    line, line_of_first = next((one, other) for one, other in zip(*pairs, strict=True) if one != other)
    return Difference(rank, line, line_of_first)
