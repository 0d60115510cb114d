"""One job: the trusted supervisor, alone in its namespaces, and how each rank is confined before it works."""

from __future__ import annotations

import datetime
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch.distributed as dist
from shardlab.ranks import inside as rank_inside
from shardlab.ranks import transports
from shardlab.ranks.call import Outcome, RankEnd
from shardlab.ranks.supervise import adopt_orphans, supervise

from autograder.jobs import call, confine, contained, exhibit, parcels, plain, syscalls, trained
from autograder.jobs.connections import Connections
from autograder.jobs.loading import MOST_SECONDS
from autograder.jobs.message import End, Report, Request
from autograder.jobs.observers import Listener, Observer, observers
from autograder.jobs.seat import Groups, Seal, Seat
from autograder.jobs.wire import Tap

PROGRAMS: dict[str, Callable[[Seat, Seal], list[rank_inside.Part]]] = {
    "on_rank": call.on_rank,
    "without_ranks": call.without_ranks,
    "exhibit": exhibit.on_stage,
}
MOST_OUTPUT = 20 << 20
MOST_HANDED_IN = 2 << 30  # bytes that the supervisor takes from all ranks
MOST_TEXT = 20_000
MOST_RESULT = 96 << 20  # bytes of one rank's result that are passed on to the judge
NO_GROUPS: Groups = MappingProxyType({})


@dataclass(frozen=True)
class Setting:
    """Where a job runs, and what its ranks inherit.

    `parts` are the files with the answer, each rank's input and the keys; `ours` are descriptors that every rank must
    close; `meeting` is the ranks' rendezvous file, or -1 if they form no group. At `level` 3 the supervisor is
    process 1 of new namespaces; at level 2 it runs in a container that serves one submission.
    """

    parts: Sequence[int]
    ours: Sequence[int]
    level: int
    meeting: int


@contextmanager
def listener(request: Request, level: int) -> Iterator[Listener | None]:
    """Observe traffic between ranks, by packets or by connections, if the job has its own loopback."""
    kind = {3: Tap, 2: Connections}.get(level) if request.program == "on_rank" and request.reads_calls else None
    found = kind() if kind else None
    yield found
    if found is not None:
        found.close()


def work(request: Request, parts: Sequence[int], ours: Sequence[int], listening: Listener | None, level: int) -> Report:
    """Supervise the ranks of a request and report what was observed; see `Setting` for `parts`, `ours` and `level`."""
    adopt_orphans()
    watching = observers(request, parts, listening, level)
    forms_group = sys.platform == "linux" and request.program == "on_rank"
    setting = Setting(parts, ours, level, parcels.anonymous() if forms_group else -1)
    printed: list[str] = []
    _limit_own_memory()
    outcome = _supervised(request, setting, watching, printed)
    found: dict[str, Any] = {"report": outcome.report, "timed_out": outcome.timed_out}
    for one in watching:
        found |= one.finish(outcome)
    peaks = found.pop("peaks", [None] * request.ranks)
    return Report(
        ends=[_described(end, peak) for end, peak in zip(outcome.ends, peaks, strict=True)],
        seconds=outcome.seconds,
        printed="".join(printed)[: request.kept_output],
        **found | {"report": found["report"] and found["report"][:MOST_TEXT]},
    )


def _supervised(request: Request, setting: Setting, watching: Sequence[Observer], printed: list[str]) -> Outcome:
    """Run the ranks while the observers watch. Append the ranks' prints to `printed`, up to a limit."""

    def emit(rank: int, text: str) -> None:
        if sum(map(len, printed)) < request.kept_output:
            printed.append(f"[rank {rank}] {text}" if request.ranks > 1 else text)

    try:
        return supervise(
            lambda rank: _live(rank, request, setting, watching),
            num_ranks=request.ranks,
            timeout=request.timeout,
            transport=transports.GLOO,
            emit=emit,
            cancelled=lambda: any([one.look() for one in watching]),  # a list, so that every observer looks each time
            most_output=MOST_OUTPUT,
            joined=request.program == "on_rank" and setting.meeting < 0,
            uncounted=lambda: sum(one.uncounted() for one in watching),
        )
    except (MemoryError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        # the ranks' results or ledgers are malformed: not the machine's fault
        outcome = Outcome([RankEnd() for _ in range(request.ranks)], 0.0)
        outcome.report = f"The ranks returned too much data or malformed data ({type(error).__name__})."
        return outcome


def _described(end: RankEnd, peak_bytes: int | None) -> End:
    """How one rank ended, in the judge's format."""
    if end.result is not None and len(end.result) > MOST_RESULT:
        return End(None, f"a result of {len(end.result):,} bytes", end.exit_code, peak_bytes)
    return End(end.result, (end.error or "")[-MOST_TEXT:] or None, end.exit_code, peak_bytes)


def _live(rank: int, request: Request, setting: Setting, watching: Sequence[Observer]) -> list[rank_inside.Part]:
    """In a rank, before any thread or student code.

    1. close what is not this rank's  2. set up private folders, processes and limits  3. join the other ranks
    4. return the program's parts; the program seals before it runs student code
    """
    answer, *inputs, _ = setting.parts
    seat = Seat(rank, request, *(plain.decode(parcels.content(one)) for one in (answer, inputs[rank])))
    for descriptor in (*setting.parts, *setting.ours, *_rendezvous()):
        with suppress(OSError):
            os.close(descriptor)
    for one in watching:
        one.enter(seat)
    _settle(seat, setting.level)
    store = _joined(seat, setting.meeting)

    def seal(groups: Groups = NO_GROUPS) -> None:
        seat.groups = groups
        if store is not None and request.seals:
            store.set_timeout(datetime.timedelta(seconds=1))
            os.close(setting.meeting)  # this also disables the store: from now on ranks can only exchange messages
        _shut_in(seat, watching, setting.level)

    return PROGRAMS[request.program](seat, seal)


def _settle(seat: Seat, level: int) -> None:
    """Give a new rank private folders, processes and limits. Raises OSError if the system does not allow it."""
    request = seat.request
    if level == 3 and not confine.settle_rank():
        raise OSError("a rank cannot be confined")
    if level == 3 and request.trains:
        confine.write_no_files()
    if level == 2:
        contained.settle_rank(seat.rank, request.masked, writes=not request.trains)
    confine.keep_own_null()
    confine.limit(seconds=request.timeout + MOST_SECONDS, memory_bytes=request.memory_bytes)
    confine.separate()


def _joined(seat: Seat, meeting: int) -> dist.Store | None:
    """The store through which a rank met the others; None if no group is formed."""
    if meeting < 0:
        return None
    num_ranks, seconds = seat.request.ranks, seat.request.timeout + MOST_SECONDS
    store = dist.FileStore(f"/proc/self/fd/{meeting}", num_ranks)
    rank_inside.join(transports.GLOO, store, seat.rank, num_ranks, seconds)
    return store


def _shut_in(seat: Seat, watching: Sequence[Observer], level: int) -> None:
    """Complete the confinement: from here on many system calls are refused permanently."""
    request = seat.request
    if request.trains:
        confine.keep_few_files()
        trained.settle()
    for one in watching:
        one.seal(seat)
    shut_in = syscalls.refuse(
        network=request.seals,
        contained=level == 2,
        memory=request.trains,
        alone=request.program != "on_rank",
        replaced=seat.replaced,
    )
    if not shut_in and level >= 2:
        raise OSError("a rank cannot be confined")
    for one in watching:
        one.begin(seat)


def _rendezvous() -> list[int]:
    """The supervisor's rendezvous file, which is unused here and would be a file that all ranks can write."""
    found = []
    for name in os.listdir("/proc/self/fd") if sys.platform == "linux" else []:
        with suppress(OSError):
            if "memfd:rendezvous" in os.readlink(f"/proc/self/fd/{name}"):
                found.append(int(name))
    return found


def _limit_own_memory() -> None:
    """Limit the supervisor's memory, because a rank may write to its pipe forever."""
    if sys.platform != "linux":
        return
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (confine.at_most(resource.RLIMIT_AS, used + MOST_HANDED_IN), hard))
