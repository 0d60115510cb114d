"""Suggest a fix for a call that went wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

from shardlab.meter.ledger import DONE, Entry
from shardlab.ranks import stacks
from shardlab.ranks.call import OUTPUT_LIMIT, Outcome, RankEnd

Ledger = tuple[int, list[Entry]]
_LOST_PEER = re.compile(r"gloo|NCCL|[Cc]onnection (closed|reset|refused)|\bpeer\b")
_ERRORS = (  # a pattern for the last line of an exception, and the fix
    (
        r"EOFError: EOF when reading a line",
        "A rank cannot read from the keyboard: ask before the call, and pass the answer as an argument.",
    ),
    (
        r"Default process group has not been initialized",
        "There is no process group: destroy_process_group() was already called on this rank. Remove that call, since "
        "shardlab.run destroys the group itself, or make it the last call of the function.",
    ),
    (
        r"is not initialized in the world group map|Invalid process group specified|Unsupported group type",
        "This rank is not in the group that it uses: the group was destroyed, or was created for other ranks. Use a "
        "group only on its own ranks, and destroy it only after its last call.",
    ),
    (
        r"initialize the default process group twice",
        "The process group already exists when the function begins: remove the call to init_process_group().",
    ),
)


def advice(outcome: Outcome, ledgers: list[Ledger]) -> list[str]:
    """A list with the first fix that applies, or an empty list."""
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
    """Whether an error only reports that another rank is gone."""
    return _LOST_PEER.search(text) is not None


def root_cause(ends: list[RankEnd]) -> int | None:
    """The rank that failed first, preferring a rank that raised its own error to one that only lost a peer."""
    failed = [rank for rank, end in enumerate(ends) if end.error or end.exit_code]
    own = [rank for rank in failed if not lost_peer(ends[rank].error or "")]
    died = [rank for rank in range(len(ends)) if not ends[rank].is_right and ends[rank].exit_code is not None]
    return next(iter(own + died + failed), None)


def named(ranks: list[int]) -> str:
    """`rank 1`, or `ranks 0, 1`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _waits(outcome: Outcome, ledgers: list[Ledger]) -> dict[int, Entry]:
    """The call in which each unfinished rank is waiting, by rank."""
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
        f"In new_group, {named(ranks)} wait{'s' if len(ranks) == 1 else ''} for the others: all ranks must call "
        "new_group for the same groups in the same order, including groups that they do not belong to."
    )


def _about_the_world_group(outcome: Outcome, ledgers: list[Ledger]) -> str:
    for rank, entry in _waits(outcome, ledgers).items():
        if entry.other_group:
            return (
                f"Rank {rank}'s {entry.kind}, {entry.place}, uses the world group, which has all ranks, although "
                f"{entry.other_group} is another group: pass it as group= if the call is only for its ranks."
            )
    return ""


def _about_destroyed_groups(outcome: Outcome, ledgers: list[Ledger]) -> str:
    """A rank that returns keeps its connections open, so a lost peer without a failed rank means a destroyed group."""
    returned = [rank for rank, end in enumerate(outcome.ends) if end.is_right]
    errors = [end.error or "" for end in outcome.ends if not end.is_right]
    if not returned or not errors or not all(map(lost_peer, errors)):
        return ""
    return (
        f"The connection to {named(returned)} was closed early: destroy_process_group() was called there while others "
        "still communicated. Remove that call, since shardlab.run destroys the group itself, or call barrier() first."
    )


def _about_messages(outcome: Outcome, ledgers: list[Ledger]) -> str:
    kinds = {entry.kind for entry in _waits(outcome, ledgers).values()}
    if kinds == {"send"}:
        return (
            "Nobody receives: a send returns only when the other side receives. "
            "Let one side receive first, or use isend."
        )
    if kinds == {"recv"}:
        return "Nobody sends: every waiting rank is in a receive. Send before receiving on at least one of them."
    return ""


def _about_prints(outcome: Outcome, ledgers: list[Ledger]) -> str:
    loud = [rank for rank, end in enumerate(outcome.ends) if not end.is_right and end.printed > OUTPUT_LIMIT]
    if not loud:
        return ""
    return (
        f"When the run was ended, {named(loud)} had printed more than {OUTPUT_LIMIT // 1024} KB; the rest is not "
        "shown. Either a loop that prints does not end, or it prints too much: print every 100th step, on one rank."
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
            f"Rank {rank} is not computing, and no message can wake it: it {wait.said}{stacks.where(end.stack)}"
            f"{others}. {wait.remedy}"
        )
    return ""


def _about_those_who_returned(outcome: Outcome, ledgers: list[Ledger]) -> str:
    returned = [rank for rank, end in enumerate(outcome.ends) if end.is_right]
    if not (_waits(outcome, ledgers) and returned and _was_ended(outcome)):
        return ""
    return (
        f"Rank {returned[0]} has already returned, so it never makes the call that the others wait for. "
        "All ranks of a group must make it."
    )


def _about_loops(outcome: Outcome, ledgers: list[Ledger]) -> str:
    if _waits(outcome, ledgers) or not outcome.timed_out or any(count < 0 for count, _ in ledgers):
        return ""
    return "No rank waits for another: a loop does not end, or the call needs a larger timeout=."
