"""What the packets say, held against what ranks claim: rows of [source, target, kind, frames, bytes], see jobs/wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def other_than_claimed(rows: Sequence[list], claims: Sequence[Sequence[Any]], allowed: Sequence[str]) -> str | None:
    """A sentence if anything but messages travelled, or other bytes or numbers of them than `claims[rank]` lists."""
    for source, _, kind, *_ in rows:
        if kind == "unknown":
            return f"Rank {source} writes into a connection by itself; messages go through torch.distributed alone."
        if kind != "message":
            return f"Rank {source} calls {kind}; this exercise is made of {' and '.join(allowed)} alone."
    for rank, sends in enumerate(claims):
        mine = [row for row in rows if row[0] == rank]
        messages, travelled = sum(row[3] for row in mine), sum(row[4] for row in mine)
        if sum(sends) != travelled:
            return f"Rank {rank} reports {size(sum(sends))} sent, but {size(travelled)} travelled from it."
        if len(sends) != messages:
            return f"Rank {rank} reports {len(sends)} messages, but {messages} travelled from it."
    return None


def crossed(rows: Sequence[list] | None, rank: int, per_node: int) -> float:
    """Bytes that travelled from a rank to another node; 0 where nobody could look."""
    return float(sum(row[4] for row in rows or [] if row[0] == rank and row[1] // per_node != rank // per_node))


def size(num_bytes: float) -> str:
    """Bytes as a person writes them."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:.4g} {unit}"
    return f"{num_bytes:.4g} B"
