"""Checks of packets read outside the ranks: rows of [source, target, kind, frames, bytes], and calls (jobs/frames)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

COUNTED = "bytes"  # the kind of a row whose bytes were counted per connection, without packets (jobs/connections)
FRAME_BYTES = 48  # gloo's frame header
MOST_HEADERS = 64 * FRAME_BYTES  # from one rank to another in a case; a library's collective needs dozens of frames


class ObservedCall(NamedTuple):
    """One communication call of one rank.

    `members` and `peer` are ranks of the world. `payload_bytes` is the size of the whole tensor. `sent_bytes` is the
    number of bytes that this rank sends for it; a collective is counted as a ring. `number` is a message's tag, or the
    position of a collective among those of its group.
    """

    kind: str
    members: list[int]
    peer: int | None
    payload_bytes: int
    sent_bytes: float
    number: int = 0


def calls_of_ranks(
    rows: Sequence[list] | None, groups: Sequence[list[int] | None], num_ranks: int
) -> list[list[ObservedCall]] | None:
    """Each rank's calls, from the output of `jobs.frames.calls`; None if packets could not be read."""
    if rows is None:
        return None
    found: list[list[ObservedCall]] = [[] for _ in range(num_ranks)]
    for rank, kind, group, number, peer, own, total in rows:
        members = groups[group] if group >= 0 else None
        found[rank].append(_call(kind, members or list(range(num_ranks)), peer, number, own, total))
    return found


def _call(kind: str, members: list[int], peer: int, number: int, own: int, total: int) -> ObservedCall:
    """Derive a collective's tensor size from the bytes of all its ranks: a ring sends each number N-1 times."""
    if peer >= 0:
        return ObservedCall(kind, members, peer, own, own if kind == "send" else 0, number)
    others = max(1, len(members) - 1)
    if kind == "all_reduce":
        return ObservedCall(kind, members, None, total // (2 * others), total / len(members), number)
    if kind in ("all_gather", "reduce_scatter", "broadcast"):
        return ObservedCall(kind, members, None, total // others, total / len(members), number)
    return ObservedCall(kind, members, None, own, own, number)  # the caller chooses how much each rank sends


def other_kind(rows: Sequence[list], allowed: Sequence[str]) -> str | None:
    """Report anything on the wire that is not a message."""
    for source, _, kind, *_ in rows:
        if kind == "unknown":
            return f"Rank {source} writes to a connection directly: send every message through torch.distributed."
        if kind != "message":
            return not_made_of(source, kind, allowed)
    return None


def not_made_of(rank: int, kind: str, allowed: Sequence[str]) -> str:
    """The sentence about a call that the exercise does not allow."""
    return f"Rank {rank} calls {kind}; this exercise allows only {' and '.join(allowed)}."


def other_than_billed(
    rows: Sequence[list], bills: Sequence[Sequence[ObservedCall]], *, only_messages: bool
) -> str | None:
    """Report a byte count that does not match the ranks' own bills, for hosts where frames cannot be read.

    For messages, every byte is accounted for: the rest after the payload must be the headers of the messages' frames.
    For a library's collectives, only an upper bound is known.
    """
    if only_messages:
        return _other_than_messages(
            rows, [[call.payload_bytes for call in bill if call.kind == "send"] for bill in bills]
        )
    counted = sum(row[4] for row in rows)
    billed = sum(call.sent_bytes for bill in bills for call in bill)
    most = 2 * billed + MOST_HEADERS * (len(bills) + sum(map(len, bills)))
    if counted <= most:
        return None
    return f"The ranks report {size(billed)} sent, but {size(counted)} traveled between them, including headers."


def _other_than_messages(rows: Sequence[list], claims: Sequence[Sequence[Any]]) -> str | None:
    """gloo announces a message in one frame and sends it in another; its receiver requests it in a third."""
    num_messages, num_frames = sum(map(len, claims)), 0.0
    for rank, sends in enumerate(claims):
        sent_bytes = sum(row[4] for row in rows if row[0] == rank)
        frames = (sent_bytes - sum(sends)) / FRAME_BYTES
        if frames not in range(2 * len(sends), 2 * len(sends) + num_messages + 1):
            return (
                f"Rank {rank} reports {size(sum(sends))} sent in {len(sends)} message{'s' * (len(sends) != 1)}, but "
                f"{size(sent_bytes)} left it, including headers. Do you wait for every isend?"
            )
        num_frames += frames
    if num_frames != 3 * num_messages:
        return f"The ranks report {num_messages} messages, but {num_frames / 3:.4g} were sent."
    return None


def crossed(rows: Sequence[list] | None, rank: int, per_node: int) -> float:
    """A lower bound on the bytes that a rank sent to other nodes; 0 if they could not be counted."""
    crossing = [row for row in rows or [] if row[0] == rank and row[1] // per_node != rank // per_node]
    headers = sum(MOST_HEADERS for row in crossing if row[2] == COUNTED)
    return max(0.0, float(sum(row[4] for row in crossing) - headers))


def size(num_bytes: float) -> str:
    """Format a number of bytes for people, such as 2.5 MB."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:.4g} {unit}"
    return f"{num_bytes:.4g} B"
