"""One job: the supervisor's side, trusted and alone in its namespaces, and how a rank is shut in before it works."""

from __future__ import annotations

import datetime
import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import torch.distributed as dist
from shardlab.ranks import inside as rank_inside
from shardlab.ranks import transports
from shardlab.ranks.call import Outcome, RankEnd
from shardlab.ranks.supervise import adopt_orphans, supervise

from autograder.jobs import call, confine, contained, exhibit, marked, parcels, plain, syscalls, trained
from autograder.jobs.connections import Connections
from autograder.jobs.inputs import Inputs
from autograder.jobs.keys import Keys
from autograder.jobs.loading import MOST_SECONDS, LoadingTime
from autograder.jobs.peaks import Peaks
from autograder.jobs.watch import Watch
from autograder.jobs.wire import Tap

Seal = Callable[..., None]  # takes the groups of connections, see wire.Tap.note_sockets
PROGRAMS: dict[str, Callable[[dict, Seal], list[rank_inside.Part]]] = {
    "on_rank": call.on_rank,
    "without_ranks": call.without_ranks,
    "exhibit": exhibit.on_stage,
}
KEPT_OUTPUT = 4096
MOST_OUTPUT = 20 << 20
MOST_HANDED_IN = 2 << 30  # bytes that the supervisor takes from all ranks
MOST_TEXT = 20_000
MOST_CALLS = 4000  # of all ranks together
MOST_RESULT = 96 << 20  # bytes of one rank's result that go on to the judge


@contextmanager
def tap(request: dict[str, Any], level: int) -> Iterator[Tap | Connections | None]:
    """What counts between ranks that talk, where the job has a loopback of its own: packets, or connections."""
    kind = {3: Tap, 2: Connections}.get(level) if request["program"] == "on_rank" and request["reads_calls"] else None
    listener = kind() if kind else None
    yield listener
    if listener is not None:
        listener.close()


def work(
    request: dict[str, Any], parts: Sequence[int], ours: Sequence[int], tap: Tap | Connections | None, level: int
) -> bytes:
    """Supervise the ranks of a request and describe how they ended.

    `parts` are the files with the answer and each rank's input, `ours` the descriptors that no rank may keep. At
    `level` 3 this process is the first of its own namespaces, at 2 it is in a container that serves one submission.
    """
    adopt_orphans()
    num_ranks = request["ranks"]
    watch = Watch(request["memory_all_bytes"], num_ranks) if level >= 2 else None
    carried = confine.loopback_bytes()  # in a container, by the jobs before this one
    peaks = Peaks() if level >= 2 and request["trains"] else None
    meeting = parcels.anonymous() if sys.platform == "linux" and request["program"] == "on_rank" else -1
    keys = (
        Keys(parts[-1], num_ranks, tap.all_reduced if tap is not None else lambda: None) if request["trains"] else None
    )
    looks = request["keeps_inputs"] and sys.platform == "linux"
    inputs = Inputs(parts[1:-1], spoils=not request["returns_inputs"]) if looks else None
    loading = LoadingTime(num_ranks)
    printed: list[str] = []
    kept_output = request.get("kept_output", KEPT_OUTPUT)
    _limit_own_memory()

    def emit(rank: int, text: str) -> None:
        if sum(map(len, printed)) < kept_output:
            printed.append(f"[rank {rank}] {text}" if num_ranks > 1 else text)

    def as_a_rank(rank: int) -> list[rank_inside.Part]:
        return _live(request, rank, parts, ours, meeting, tap, peaks, keys, inputs, loading, level)

    def is_too_much() -> bool:
        if isinstance(tap, Connections):
            tap.look()
        if peaks is not None:
            peaks.look()
        if keys is not None:
            keys.serve()
        if inputs is not None:
            inputs.look()
        return loading.is_too_long() or (watch is not None and watch())

    try:
        outcome = supervise(
            as_a_rank,
            num_ranks=num_ranks,
            timeout=request["timeout"],
            transport=transports.GLOO,
            emit=emit,
            cancelled=is_too_much,
            most_output=MOST_OUTPUT,
            joined=request["program"] == "on_rank" and meeting < 0,
            uncounted=loading.seconds,
        )
    except (MemoryError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        # what the ranks handed in or wrote into their ledgers makes no sense: the machine is not at fault
        outcome = Outcome([RankEnd() for _ in range(num_ranks)], 0.0)
        outcome.report = f"The ranks handed in more than fits, or what makes no sense ({type(error).__name__})."
    if outcome.cancelled and loading.is_too_long():
        outcome.report, outcome.timed_out = loading.report(outcome.report), True
    if watch is not None and watch.complaint:
        outcome.report = watch.complaint
    rows_and_calls = _read(tap) if tap is not None else None
    if tap is not None and tap.num_noted == 0:  # no line of the student's has run
        raise OSError("the ranks did not come together")
    for one in filter(None, (keys, inputs)):
        one.close()
    most = peaks.of(num_ranks) if peaks is not None else [None] * num_ranks
    ends = [_described(end) | {"peak_bytes": peak} for end, peak in zip(outcome.ends, most, strict=True)]
    return plain.encode(
        {
            "ends": ends,
            "report": outcome.report and outcome.report[:MOST_TEXT],
            "timed_out": outcome.timed_out,
            "seconds": outcome.seconds,
            "loopback_bytes": confine.loopback_bytes() - carried if level >= 2 else -1,
            "wire": rows_and_calls and rows_and_calls[0],
            "calls": rows_and_calls and rows_and_calls[1],
            "unread": tap is not None and rows_and_calls is None,
            "touched": inputs.touched if inputs is not None else [],
            "asked": keys.asked if keys is not None else [],
            "printed": "".join(printed)[:kept_output],
        }
    )


def _read(tap: Tap | Connections) -> tuple[list, list | None] | None:
    """What travelled; None if it cannot be told, or if it is more than any answer needs."""
    try:
        rows, calls = tap.read() or ([], None)
    except Exception:  # the bytes on the wire make the reading fail
        return None
    if isinstance(tap, Tap) and (calls is None or len(calls) > MOST_CALLS):
        return None
    return rows, calls


def _described(end: RankEnd) -> dict[str, Any]:
    """How one rank ended, as the judge reads it."""
    if end.result is not None and len(end.result) > MOST_RESULT:
        return {"result": None, "error": f"a result of {len(end.result):,} bytes", "exit": end.exit_code}
    return {"result": end.result, "error": (end.error or "")[-MOST_TEXT:] or None, "exit": end.exit_code}


def _live(
    request: dict[str, Any],
    rank: int,
    parts: Sequence[int],
    ours: Sequence[int],
    meeting: int,
    tap: Tap | Connections | None,
    peaks: Peaks | None,
    keys: Keys | None,
    kept: Inputs | None,
    loading: LoadingTime,
    level: int,
) -> list[rank_inside.Part]:
    """In a rank, before any thread or student code.

    1. forget what is not ours  2. folders, processes and limits of our own  3. join the others  4. run; it seals first
    """
    answer, *inputs, _ = parts
    own = {
        **request,
        "answer": plain.decode(parcels.content(answer)),
        "mine": plain.decode(parcels.content(inputs[rank])),
    }
    request.clear()
    for descriptor in (*parts, *ours, *_rendezvous()):
        with suppress(OSError):
            os.close(descriptor)
    if tap is not None:
        tap.keep_only_notes()
    if peaks is not None:
        peaks.keep_only_notes()
    if keys is not None:
        marked.ask = keys.keep_own(rank)
    replaced = None
    if kept is not None:
        mine = own["mine"] or {"args": []}
        mine["args"], call.returned, replaced = kept.keep_own(rank, mine["args"])
    call.loaded = loading.keep_own(rank)
    if level == 3 and not confine.settle_rank():
        raise OSError("a rank cannot be shut in")
    if level == 3 and own["trains"]:
        confine.write_no_files()
    if level == 2:
        contained.settle_rank(rank, own["masked"], writes=not own["trains"])
    confine.keep_own_null()
    confine.limit(seconds=own["timeout"] + MOST_SECONDS, memory_bytes=own["memory_bytes"])
    confine.separate()
    store = None
    if meeting >= 0:
        store = dist.FileStore(f"/proc/self/fd/{meeting}", own["ranks"])
        rank_inside.join(transports.GLOO, store, rank, own["ranks"], own["timeout"] + MOST_SECONDS)

    def seal(groups: Mapping[tuple[int, int], int] = MappingProxyType({})) -> None:
        if store is not None and own["seals"]:
            store.set_timeout(datetime.timedelta(seconds=1))
            os.close(meeting)  # with it the store: from here on ranks hear of each other by messages alone
        if own["trains"]:
            confine.keep_few_files()
            trained.settle()
        if tap is not None:
            tap.note_sockets(rank, groups)
        shut_in = syscalls.refuse(
            network=own["seals"],
            contained=level == 2,
            memory=own["trains"],
            alone=own["program"] != "on_rank",
            replaced=replaced,
        )
        if not shut_in and level >= 2:
            raise OSError("a rank cannot be shut in")
        if peaks is not None:
            peaks.note(rank)

    return PROGRAMS[own["program"]](own, seal)


def _rendezvous() -> list[int]:
    """The supervisor's own meeting place, which is not used here and would be a file that all ranks can write."""
    found = []
    for name in os.listdir("/proc/self/fd") if sys.platform == "linux" else []:
        with suppress(OSError):
            if "memfd:rendezvous" in os.readlink(f"/proc/self/fd/{name}"):
                found.append(int(name))
    return found


def _limit_own_memory() -> None:
    """A rank may write forever into the pipe that the supervisor reads."""
    if sys.platform != "linux":
        return
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (confine.at_most(resource.RLIMIT_AS, used + MOST_HANDED_IN), hard))
