"""Report in a few lines what every rank was doing: which ranks wait where, which failed, where ranks diverged."""

from __future__ import annotations

import signal
from collections import defaultdict

from shardlab.meter.ledger import CAPACITY, DONE, POINT_TO_POINT, Entry
from shardlab.ranks import stacks
from shardlab.ranks.advice import Ledger, advice, lost_peer, named, root_cause
from shardlab.ranks.call import OUTPUT_LIMIT, Outcome, RankEnd

NOT_KEPT: Ledger = (-1, [])


def explain(outcome: Outcome, ledgers: list[Ledger], timeout: float) -> str | None:
    """The report of a call that went wrong, or None if it went well."""
    ends = outcome.ends
    if all(end.is_right for end in ends):
        problems = [*misread_messages(ledgers), *first_divergence(ledgers)]
        return (
            "\n".join(["Every rank returned, but some data did not arrive as sent.", *problems]) if problems else None
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
            *advice(outcome, ledgers),
        )
    ]
    first = root_cause(ends)
    if first is not None and ends[first].error:
        lines += ["", f"rank {first} raised first:", ends[first].error or ""]
    return "\n".join(lines)


def notes_by_rank(notes: list[list[str]]) -> list[str]:
    """The notes of all ranks, each with the ranks that wrote it."""
    ranks: dict[str, list[int]] = defaultdict(list)
    for rank, texts in enumerate(notes):
        for text in texts:
            ranks[text].append(rank)
    return [f"{named(who)} {text}" for text, who in ranks.items()]


def _headline(outcome: Outcome, timeout: float) -> str:
    ends = outcome.ends
    if outcome.cancelled:
        return "Interrupted: the run was ended."
    waiting = sum(not end.is_right for end in ends)
    if outcome.stalled:
        wait, them = ("waits", "it") if waiting == 1 else ("wait", "them")
        return f"Deadlock: {waiting} of {len(ends)} ranks {wait}, and nothing can wake {them}, so the run was ended."
    if outcome.timed_out:
        return f"After {timeout:g} s, {waiting} of {len(ends)} ranks had not finished, so the run was ended."
    first, who = root_cause(ends), f"the call on {len(ends)} rank{'s' if len(ends) > 1 else ''}"
    if first is None:  # ended from outside, for example because it kept printing
        return f"{who.capitalize()} was ended before {waiting} of them had finished."
    return f"Rank {first} failed, which ended {who}."


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
        if lost_peer(problem) and last:
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
    """Describe a rank that neither returned nor failed; `done` says how many calls it had made."""
    count, entries = ledger
    last = entries[-1] if entries else None
    if stacks.is_in_new_group(end.stack):
        return f"waits in new_group {done}{stacks.where(end.stack)}" + (f"; its last call was {last}" if last else "")
    if last and last.state != DONE:
        finished = [entry for entry in entries if entry.state == DONE]
        before = f"; its last finished call was {finished[-1]}" if finished else "; it had not finished any call"
        return f"waits in {last}{before}"
    doing = "was still computing" if count >= 0 else "was still running"
    if end.printed > OUTPUT_LIMIT:
        doing = "was still printing"
    elif end.idle and (awaited := stacks.awaited(end.stack)) is not None:
        doing = awaited.said
    return f"{doing} {done}{stacks.where(end.stack)}" + (f"; its last finished call was {last}" if last else "")


def first_divergence(ledgers: list[Ledger]) -> list[str]:
    """The first collective at which ranks of one group differ in kind, size or dtype; gloo may not notice."""
    if any(count > CAPACITY for count, _ in ledgers):
        return []  # the first calls were overwritten
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
    """The values that must agree on all ranks of a collective; the size of an all-to-all may differ per rank."""
    size = 0 if entry.kind == "all_to_all" else entry.payload_bytes
    return entry.kind, _dtype(entry), size


def _dtype(entry: Entry) -> str:
    return entry.tensor.rsplit(" ", 1)[-1]


def misread_messages(ledgers: list[Ledger]) -> list[str]:
    """Messages received with a different size or dtype: gloo silently fills part of a larger receive.

    Messages between two ranks match in order within a tag: the i-th send goes with the i-th receive.
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
                    f"received as {into.tensor} ({into.place}). A receive needs the size and dtype of its send."
                )
    return problems[:3]
