"""The remedy that fits a call that went wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

from shardlab.meter.ledger import DONE, Entry
from shardlab.ranks import stacks
from shardlab.ranks.call import OUTPUT_LIMIT, Outcome, RankEnd

Ledger = tuple[int, list[Entry]]
_LOST_PEER = re.compile(r"gloo|NCCL|[Cc]onnection (closed|reset|refused)|\bpeer\b")
_ERRORS = (  # what an exception's last line says, and the remedy
    (
        r"EOFError: EOF when reading a line",
        "A rank has no keyboard: ask before the call, and pass the answer to the function as an argument.",
    ),
    (
        r"Default process group has not been initialized",
        "There is no process group: destroy_process_group() has ended it on this rank. Leave that call out, since "
        "shardlab.run ends the group itself, or make it the last call of the function.",
    ),
    (
        r"is not initialized in the world group map|Invalid process group specified|Unsupported group type",
        "This rank is not in the group that it uses: the group was destroyed, or was made for other ranks. Call on the "
        "ranks of the group alone, and destroy a group only after its last call.",
    ),
    (
        r"initialize the default process group twice",
        "The ranks have their process group when the function begins: leave init_process_group() out.",
    ),
)


def advice(outcome: Outcome, ledgers: list[Ledger]) -> list[str]:
    """One remedy for the commonest failures, or none."""
    remedies: tuple[Callable[[Outcome, list[Ledger]], str], ...] = (
        _about_the_error,
        _about_new_group,
        _about_the_world_group,
        _about_destroyed_groups,
        _about_messages,
        _about_prints,
        _about_threads,
        _about_those_who_returned,
        _about_loops,
    )
    found = (remedy(outcome, ledgers) for remedy in remedies)
    return [text for text in found if text][:1]


def lost_peer(text: str) -> bool:
    """Whether an error only says that another rank has gone."""
    return _LOST_PEER.search(text) is not None


def root_cause(ends: list[RankEnd]) -> int | None:
    """The rank whose failure is not just the loss of a peer: a raised exception before a lost connection."""
    failed = [rank for rank, end in enumerate(ends) if end.error or end.exit_code]
    own = [rank for rank in failed if not lost_peer(ends[rank].error or "")]
    died = [rank for rank in range(len(ends)) if not ends[rank].is_right and ends[rank].exit_code is not None]
    return next(iter(own + died + failed), None)


def named(ranks: list[int]) -> str:
    """`rank 1`, or `ranks 0, 1`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _waits(outcome: Outcome, ledgers: list[Ledger]) -> dict[int, Entry]:
    """The call that each unfinished rank waits in, by rank."""
    return {
        rank: entries[-1]
        for rank, (end, (_, entries)) in enumerate(zip(outcome.ends, ledgers, strict=True))
        if not end.is_right and not end.error and entries and entries[-1].state != DONE
    }


def _was_ended(outcome: Outcome) -> bool:
    return outcome.timed_out or outcome.stalled


def _about_the_error(outcome: Outcome, ledgers: list[Ledger]) -> str:
    first = root_cause(outcome.ends)
    lines = (outcome.ends[first].error or "").strip().splitlines() if first is not None else []
    return next((text for pattern, text in _ERRORS if lines and re.search(pattern, lines[-1])), "")


def _about_new_group(outcome: Outcome, ledgers: list[Ledger]) -> str:
    ranks = [rank for rank, end in enumerate(outcome.ends) if stacks.is_in_new_group(end.stack)]
    if not ranks or not _was_ended(outcome):
        return ""
    return (
        f"In new_group {named(ranks)} wait{'s' if len(ranks) == 1 else ''} for the others: all ranks must call "
        "new_group for the same groups in the same order, also for groups that they are not in."
    )


def _about_the_world_group(outcome: Outcome, ledgers: list[Ledger]) -> str:
    for rank, entry in _waits(outcome, ledgers).items():
        if entry.other_group:
            return (
                f"Rank {rank}'s {entry.kind}, {entry.place}, uses the world group, which has all ranks, although "
                f"{entry.other_group} is another group: pass it as group= if the call is meant for its ranks alone."
            )
    return ""


def _about_destroyed_groups(outcome: Outcome, ledgers: list[Ledger]) -> str:
    """A rank that returns keeps its connections: if one was closed and nobody failed, a group was destroyed."""
    returned = [rank for rank, end in enumerate(outcome.ends) if end.is_right]
    errors = [end.error or "" for end in outcome.ends if not end.is_right]
    if not returned or not errors or not all(map(lost_peer, errors)):
        return ""
    return (
        f"The connection to {named(returned)} was closed early: destroy_process_group() was called there while others "
        "still communicated. Leave that call out, since shardlab.run ends the group itself, or call barrier() first."
    )


def _about_messages(outcome: Outcome, ledgers: list[Ledger]) -> str:
    kinds = {entry.kind for entry in _waits(outcome, ledgers).values()}
    if kinds == {"send"}:
        return (
            "Nobody receives: a send returns only when the other side receives. "
            "Let one side receive first, or use isend."
        )
    if kinds == {"recv"}:
        return "Nobody sends: every waiting rank is in a receive. Send before you receive on at least one of them."
    return ""


def _about_prints(outcome: Outcome, ledgers: list[Ledger]) -> str:
    loud = [rank for rank, end in enumerate(outcome.ends) if not end.is_right and end.printed > OUTPUT_LIMIT]
    if not loud:
        return ""
    return (
        f"Until its end {named(loud)} printed without pause, and only the first {OUTPUT_LIMIT // 1024} KB are shown: a "
        "loop that prints does not end, or prints too much. Print every hundredth step, on one rank."
    )


def _about_threads(outcome: Outcome, ledgers: list[Ledger]) -> str:
    """Ranks that neither compute nor wait for a message."""
    waits = _waits(outcome, ledgers)
    for rank, (end, (count, _)) in enumerate(zip(outcome.ends, ledgers, strict=True)):
        wait = stacks.awaited(end.stack) if end.idle else None
        if count < 0 or rank in waits or wait is None:
            continue
        others = "".join(f"; another of its threads is at {line}" for line in stacks.others(end.stack)[:3])
        return (
            f"Rank {rank} does not compute, and no message can wake it: it {wait.said}{stacks.where(end.stack)}"
            f"{others}. {wait.remedy}"
        )
    return ""


def _about_those_who_returned(outcome: Outcome, ledgers: list[Ledger]) -> str:
    returned = [rank for rank, end in enumerate(outcome.ends) if end.is_right]
    if not (_waits(outcome, ledgers) and returned and _was_ended(outcome)):
        return ""
    return (
        f"Rank {returned[0]} has returned: it never makes the call that the others wait for. "
        "All ranks of a group must call."
    )


def _about_loops(outcome: Outcome, ledgers: list[Ledger]) -> str:
    if _waits(outcome, ledgers) or not outcome.timed_out or any(count < 0 for count, _ in ledgers):
        return ""
    return "No rank waits for another: a loop does not end, or the call needs a larger timeout=."
