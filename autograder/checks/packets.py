"""What the packets say, held against what ranks claim: rows of [source, target, kind, frames, bytes], see jobs/wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

COUNTED = "bytes"  # the kind of a row where a connection's bytes were counted and no packet read (jobs/connections)
FRAME_BYTES = 48  # gloo's header of a frame
MOST_HEADERS = 64 * FRAME_BYTES  # of all that one rank sends to another in a case; a library's collective has dozens


class Call(NamedTuple):
    """One communication call of one rank; `members` and `peer` are ranks of the world, `payload_bytes` of the whole
    tensor, `sent_bytes` what this rank of a ring sends for it."""

    kind: str
    members: list[int]
    peer: int | None
    payload_bytes: int
    sent_bytes: float


def other_than_claimed(rows: Sequence[list], claims: Sequence[Sequence[Any]], allowed: Sequence[str]) -> str | None:
    """A sentence if anything but messages travelled, or other bytes or numbers of them than `claims[rank]` lists."""
    if any(kind == COUNTED for _, _, kind, *_ in rows):
        return _other_than_counted(rows, claims)
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


def _other_than_counted(rows: Sequence[list], claims: Sequence[Sequence[Any]]) -> str | None:
    """As above where frames cannot be read: what is no payload must be headers of the frames that messages take.

    gloo announces a message in one frame and carries it in another; its receiver asks for it in a third (tcp/pair.cc).
    """
    num_messages, num_frames = sum(map(len, claims)), 0.0
    for rank, sends in enumerate(claims):
        travelled = sum(row[4] for row in rows if row[0] == rank)
        frames = (travelled - sum(sends)) / FRAME_BYTES
        if frames not in range(2 * len(sends), 2 * len(sends) + num_messages + 1):
            return (
                f"Rank {rank} reports {size(sum(sends))} sent in {len(sends)} messages, but {size(travelled)} "
                "travelled from it, headers included."
            )
        num_frames += frames
    if num_frames != 3 * num_messages:
        return f"The ranks report {num_messages} messages, but those that travelled have {num_frames / 3:.4g} headers."
    return None


def crossed(rows: Sequence[list] | None, rank: int, per_node: int) -> float:
    """Bytes that travelled from a rank to another node, at least; 0 where nobody could look."""
    crossing = [row for row in rows or [] if row[0] == rank and row[1] // per_node != rank // per_node]
    headers = sum(MOST_HEADERS for row in crossing if row[2] == COUNTED)
    return max(0.0, float(sum(row[4] for row in crossing) - headers))


def size(num_bytes: float) -> str:
    """Bytes as a person writes them."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:.4g} {unit}"
    return f"{num_bytes:.4g} B"
