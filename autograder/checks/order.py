"""Whether the messages between two ranks match by their order alone, as NCCL's do, read from packets outside them."""

from __future__ import annotations

from autograder.checks.base import Reply, calls_of


def matched_by_tags(reply: Reply) -> str | None:
    """A sentence if a rank takes messages in another order than they were sent, told apart by nothing but tags.

    A rank ignores tags too (`jobs.tags`): honest answers see the wrong values long before this is asked.
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
                    f"Rank {rank} sends messages with the tags {sent[:8]}, in this order, and rank {peer} receives "
                    f"{taken[:8]}. NCCL has no tags: agree on one order."
                )
    return None
