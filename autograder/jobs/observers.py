"""Observers watch a job from outside its ranks: a list of small parts with one interface.

Each is created before the ranks are forked. In a rank, before any student code, `enter` runs after the fork, `seal`
just before system calls are restricted, and `begin` just after. In the supervisor, `look` runs in every loop iteration
and returns whether the job must end; `finish` runs when all ranks have ended and returns fields of the report.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardlab.ranks.call import Outcome

from autograder.jobs import call, confine, marked
from autograder.jobs.connections import Connections
from autograder.jobs.inputs import Inputs
from autograder.jobs.keys import Keys
from autograder.jobs.loading import LoadingTime
from autograder.jobs.message import Request
from autograder.jobs.peaks import Peaks
from autograder.jobs.seat import Seat
from autograder.jobs.watch import Watch
from autograder.jobs.wire import Tap

MOST_CALLS = 4000  # of all ranks together
Listener = Tap | Connections


@dataclass(frozen=True)
class Observer:
    """One observer; hooks that are not given do nothing."""

    enter: Callable[[Seat], None] = lambda seat: None
    seal: Callable[[Seat], None] = lambda seat: None
    begin: Callable[[Seat], None] = lambda seat: None
    look: Callable[[], bool | None] = lambda: None
    finish: Callable[[Outcome], dict[str, Any]] = lambda outcome: {}
    uncounted: Callable[[], float] = float  # seconds so far that do not count against the ranks' own limit


def observers(request: Request, parts: Sequence[int], listener: Listener | None, level: int) -> list[Observer]:
    """The observers that a job needs. `parts` are the files with the answer, each rank's input, and the keys.

    If two observers report why a job ended, the later one in the list takes precedence.
    """
    found = [_loading(LoadingTime(request.ranks))]
    if level >= 2:
        found += [_limits(Watch(request.memory_all_bytes, request.ranks)), _loopback()]
    if listener is not None:
        found.append(_listening(listener))
    if level >= 2 and request.trains:
        found.append(_memory(Peaks(), request.ranks))
    if request.trains:
        all_reduced = listener.all_reduced if listener is not None else lambda: None
        found.append(_asking(Keys(parts[-1], request.ranks, all_reduced)))
    if request.keeps_inputs and sys.platform == "linux":
        found.append(_reading(Inputs(parts[1:-1], spoils=not request.returns_inputs)))
    return found


def _loading(time: LoadingTime) -> Observer:
    def enter(seat: Seat) -> None:
        call.loaded = time.keep_own(seat.rank)

    def finish(outcome: Outcome) -> dict[str, Any]:
        if outcome.cancelled and time.is_too_long():
            return {"report": time.report(outcome.report), "timed_out": True}
        return {}

    return Observer(enter=enter, look=time.is_too_long, finish=finish, uncounted=time.seconds)


def _limits(watch: Watch) -> Observer:
    """Limit the memory and processes of all ranks together."""
    return Observer(look=watch, finish=lambda _: {"report": watch.complaint} if watch.complaint else {})


def _loopback() -> Observer:
    """Count bytes on the loopback since the start of the job: in a container, earlier jobs used it too."""
    before = confine.loopback_bytes()
    return Observer(finish=lambda _: {"loopback_bytes": confine.loopback_bytes() - before})


def _listening(listener: Listener) -> Observer:
    """Record traffic between ranks: packets, or bytes per connection."""

    def finish(_: Outcome) -> dict[str, Any]:
        found = _read(listener)
        if listener.num_noted == 0:  # no line of student code has run
            raise OSError("the ranks did not connect to each other")
        return {"unread": True} if found is None else {"wire": found[0], "calls": found[1]}

    return Observer(
        enter=lambda _: listener.keep_only_notes(),
        seal=lambda seat: listener.note_sockets(seat.rank, seat.groups),
        look=listener.look if isinstance(listener, Connections) else lambda: None,
        finish=finish,
    )


def _read(listener: Listener) -> tuple[list, list | None] | None:
    """The traffic; None if it cannot be parsed or is more than any answer needs."""
    try:
        rows, calls = listener.read() or ([], None)
    except Exception:  # students control the bytes on the wire, which may not parse
        return None
    if isinstance(listener, Tap) and (calls is None or len(calls) > MOST_CALLS):
        return None
    return rows, calls


def _memory(peaks: Peaks, num_ranks: int) -> Observer:
    return Observer(
        enter=lambda _: peaks.keep_only_notes(),
        begin=lambda seat: peaks.note(seat.rank),
        look=peaks.look,
        finish=lambda _: {"peaks": peaks.of(num_ranks)},
    )


def _asking(keys: Keys) -> Observer:
    def enter(seat: Seat) -> None:
        marked.ask = keys.keep_own(seat.rank)

    def finish(_: Outcome) -> dict[str, Any]:
        keys.close()
        return {"asked": keys.asked}

    return Observer(enter=enter, look=keys.serve, finish=finish)


def _reading(inputs: Inputs) -> Observer:
    """Keep inputs in memory that the supervisor can read."""

    def enter(seat: Seat) -> None:
        mine = seat.mine or {"args": []}
        mine["args"], call.returned, seat.replaced = inputs.keep_own(seat.rank, mine["args"])

    def finish(_: Outcome) -> dict[str, Any]:
        inputs.close()
        return {"touched": inputs.touched}

    return Observer(enter=enter, look=inputs.look, finish=finish)
