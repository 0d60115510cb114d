"""Checks that messages between two ranks match by order alone, as in NCCL; read from packets, outside the ranks."""

from __future__ import annotations

from autograder.checks.base import Reply, calls_of


def matched_by_tags(reply: Reply) -> str | None:
    """Report a rank that receives messages in a different order than they were sent, matching them by tag.

    Ranks ignore tags too (`jobs.tags`), so an honest answer that relies on tags gets wrong values before this check.
    """
    if reply.calls is None:
        return None
    for rank in range(len(reply.ranks)):
        sends = [call for call in calls_of(reply, rank) if call.kind == "send"]
        for peer, members in {(call.peer, tuple(call.members)) for call in sends if call.peer is not None}:
            sent = [call.number for call in sends if (call.peer, tuple(call.members)) == (peer, members)]
            taken = [
                call.number
                for call in calls_of(reply, peer)
                if (call.kind, call.peer, tuple(call.members)) == ("recv", rank, members)
            ]
            if sent != taken and sorted(sent) == sorted(taken):
                return (
                    f"Rank {rank} sends messages with the tags {sent[:8]}, in this order, but rank {peer} receives "
                    f"{taken[:8]}. NCCL has no tags: send and receive in the same order."
                )
    return None
