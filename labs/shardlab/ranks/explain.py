"""Say in a few lines what every rank was doing: who waits where, who failed, who diverged first."""

from __future__ import annotations

import re
import signal
from collections import defaultdict

from shardlab.meter.ledger import CAPACITY, DONE, POINT_TO_POINT, Entry
from shardlab.meter.place import describe, is_machinery
from shardlab.ranks.call import Outcome, RankEnd

Ledger = tuple[int, list[Entry]]
NOT_KEPT: Ledger = (-1, [])
_LOST_PEER = re.compile(r"gloo|NCCL|[Cc]onnection (closed|reset|refused)|\bpeer\b")
_NEW_GROUP = re.compile(r'distributed_c10d\.py", line \d+ in new_group\b')
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')


def explain(outcome: Outcome, ledgers: list[Ledger], timeout: float) -> str | None:
    """The report of a call that went wrong, or None if it went well."""
    ends = outcome.ends
    if all(end.is_right for end in ends):
        problems = [*misread_messages(ledgers), *first_divergence(ledgers)]
        return (
            "\n".join(["Every rank returned, but what was sent is not what arrived.", *problems]) if problems else None
        )
    lines = [_headline(outcome, timeout)]
    lines += [
        f"  rank {rank} {_state(end, ledger)}" for rank, (end, ledger) in enumerate(zip(ends, ledgers, strict=True))
    ]
    lines += [
        f"  {line}"
        for line in (
            *misread_messages(ledgers),
            *first_divergence(ledgers),
            *outcome.notes,
            *_advice(outcome, ledgers),
        )
    ]
    first = _root_cause(ends)
    if first is not None and ends[first].error:
        lines += ["", f"rank {first} raised first:", ends[first].error or ""]
    return "\n".join(lines)


def notes_by_rank(notes: list[list[str]]) -> list[str]:
    """The sentences that ranks have left, each with the ranks that left it."""
    ranks: dict[str, list[int]] = defaultdict(list)
    for rank, texts in enumerate(notes):
        for text in texts:
            ranks[text].append(rank)
    return [f"{named(who)} {text}" for text, who in ranks.items()]


def named(ranks: list[int]) -> str:
    """`rank 1`, or `ranks 0, 1`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _headline(outcome: Outcome, timeout: float) -> str:
    ends = outcome.ends
    if outcome.cancelled:
        return "Interrupted: all ranks were ended."
    waiting = sum(not end.is_right for end in ends)
    if outcome.stalled:
        wait, them = ("waits", "it") if waiting == 1 else ("wait", "them")
        return f"Deadlock: {waiting} of {len(ends)} ranks {wait}, and nothing can wake {them}. All were ended."
    if outcome.timed_out:
        return f"After {timeout:g} s {waiting} of {len(ends)} ranks had not finished, and all were ended."
    first, who = _root_cause(ends), f"the call on {len(ends)} rank{'s' if len(ends) > 1 else ''}"
    if first is None:  # ended from outside, for printing without end for example
        return f"{who.capitalize()} was ended before {waiting} of them had finished."
    return f"Rank {first} failed, and with it {who}."


def _root_cause(ends: list[RankEnd]) -> int | None:
    """The rank whose failure is not just the loss of a peer: a raised exception before a lost connection."""
    failed = [rank for rank, end in enumerate(ends) if end.error or end.exit_code]
    own = [rank for rank in failed if not (ends[rank].error and _LOST_PEER.search(ends[rank].error or ""))]
    died = [rank for rank in range(len(ends)) if not ends[rank].is_right and ends[rank].exit_code is not None]
    return next(iter(own + died + failed), None)


def _state(end: RankEnd, ledger: Ledger) -> str:
    count, entries = ledger
    last = entries[-1] if entries else None
    if count < 0:  # no ledger was kept
        done = "(its calls were not observed)"
    else:
        done = f"after {count} call{'s' if count > 1 else ''}" if count else "before any communication"
    if end.is_right:
        return f"returned {done}" + (f"; its last was {last}" if last else "")
    if end.error:
        problem = end.error.strip().splitlines()[-1][:160]
        if _LOST_PEER.search(problem) and last:
            return f"was in {last} when a peer went away"
        return f"raised {done}: {problem}"
    if end.exit_code is not None:
        how = (
            f"was killed by {signal.Signals(-end.exit_code).name}"
            if end.exit_code < 0
            else f"left with exit code {end.exit_code}"
        )
        return f"{how} {done}" + (f", the last: {last}" if last else "")
    return _state_when_ended(end, ledger, done)


def _state_when_ended(end: RankEnd, ledger: Ledger, done: str) -> str:
    """What a rank was at that neither returned nor failed; `done` tells how many calls it had made."""
    count, entries = ledger
    last = entries[-1] if entries else None
    if _is_in_new_group(end):
        return f"waits in new_group {done}{_where(end.stack)}" + (f"; its last call was {last}" if last else "")
    if last and last.state != DONE:
        finished = [entry for entry in entries if entry.state == DONE]
        before = f"; its last finished call was {finished[-1]}" if finished else "; it had finished no call before"
        return f"waits in {last}{before}"
    doing = "was still computing" if count >= 0 else "was still at work"
    return f"{doing} {done}{_where(end.stack)}" + (f"; its last finished call was {last}" if last else "")


def _is_in_new_group(end: RankEnd) -> bool:
    """Whether a rank was ended inside `dist.new_group`: it sends nothing there that a ledger could keep."""
    return _NEW_GROUP.search(end.stack) is not None


def _where(stack: str) -> str:
    """The line of the innermost frame of a faulthandler dump that is neither torch's nor the standard library's."""
    for match in _FRAME.finditer(stack):
        if not is_machinery(match["file"]):
            return ", at " + describe(match["file"], int(match["line"]), match["function"])
    return ""


def first_divergence(ledgers: list[Ledger]) -> list[str]:
    """The first collective at which ranks of one group differ in kind, size or dtype: gloo need not notice."""
    if any(count > CAPACITY for count, _ in ledgers):
        return []  # the beginning is lost
    sequences: dict[str, dict[int, list[Entry]]] = defaultdict(dict)
    for rank, (_, entries) in enumerate(ledgers):
        for entry in entries:
            if entry.kind not in POINT_TO_POINT:
                sequences[entry.members].setdefault(rank, []).append(entry)
    for calls in sequences.values():
        for index in range(max(map(len, calls.values()))):
            here = {rank: entries[index] for rank, entries in calls.items() if index < len(entries)}
            if len({_must_match(entry) for entry in here.values()}) > 1:
                told = "; ".join(f"rank {rank} called {entry}" for rank, entry in sorted(here.items()))
                return [f"The ranks diverge at collective #{index + 1}: {told}."]
    return []


def _must_match(entry: Entry) -> tuple[str, str, int]:
    """What all ranks of a collective have in common; of an all-to-all each rank may hold another size."""
    size = 0 if entry.kind == "all_to_all" else entry.payload_bytes
    return entry.kind, _dtype(entry), size


def _dtype(entry: Entry) -> str:
    return entry.tensor.rsplit(" ", 1)[-1]


def misread_messages(ledgers: list[Ledger]) -> list[str]:
    """Messages that arrived as something else: gloo fills a receive of another size in part and says nothing.

    Messages between two ranks match by order within a tag, so the i-th send meets the i-th receive.
    """
    if any(count > CAPACITY for count, _ in ledgers):
        return []
    sent: dict[tuple, list[Entry]] = defaultdict(list)
    received: dict[tuple, list[Entry]] = defaultdict(list)
    for rank, (_, entries) in enumerate(ledgers):
        for entry in entries:
            if entry.kind == "send":
                sent[rank, entry.peer, entry.members, entry.tag].append(entry)
            elif entry.kind == "recv" and entry.peer >= 0:
                received[entry.peer, rank, entry.members, entry.tag].append(entry)
    problems = []
    for (source, target, *key), sends in sent.items():
        for number, (out, into) in enumerate(zip(sends, received[source, target, *key], strict=False), 1):
            if (out.payload_bytes, _dtype(out)) != (into.payload_bytes, _dtype(into)):
                problems.append(
                    f"Message {number} from rank {source} to rank {target}: sent as {out.tensor} ({out.place}), "
                    f"received as {into.tensor} ({into.place}). A receive must have the size and dtype of its send."
                )
    return problems[:3]


def _advice(outcome: Outcome, ledgers: list[Ledger]) -> list[str]:
    """One remedy for the commonest hangs."""
    waits = {
        rank: entries[-1]
        for rank, (end, (_, entries)) in enumerate(zip(outcome.ends, ledgers, strict=True))
        if not end.is_right and entries and entries[-1].state != DONE
    }
    in_new_group = [str(rank) for rank, end in enumerate(outcome.ends) if _is_in_new_group(end)]
    if in_new_group and (outcome.timed_out or outcome.stalled):
        ranks = f"rank {in_new_group[0]} waits" if len(in_new_group) == 1 else f"ranks {', '.join(in_new_group)} wait"
        return [
            f"In new_group {ranks} for the others: all ranks must call new_group for the same groups in the same "
            "order, also for groups that they are not in."
        ]
    kinds = {entry.kind for entry in waits.values()}
    returned = [rank for rank, end in enumerate(outcome.ends) if end.is_right]
    if kinds == {"send"}:
        return [
            "Nobody receives: a send returns only when the other side receives. "
            "Let one side receive first, or use isend."
        ]
    if kinds == {"recv"}:
        return ["Nobody sends: every waiting rank is in a receive. Send before you receive on at least one of them."]
    if waits and returned and (outcome.timed_out or outcome.stalled):
        return [
            f"Rank {returned[0]} has returned: it never makes the call that the others wait for. "
            "All ranks of a group must call."
        ]
    if not waits and outcome.timed_out and all(count >= 0 for count, _ in ledgers):
        return ["No rank waits for another: a loop does not end, or the call needs a larger timeout=."]
    return []
