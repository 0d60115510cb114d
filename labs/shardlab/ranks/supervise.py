"""Fork the ranks of one call, watch them, and clean up after them.

The warm worker behind a notebook and the grader's job (inside its sandbox) both use it, so both run the same ranks.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from shardlab.meter import ledger
from shardlab.ranks import inside, transports
from shardlab.ranks.call import Outcome, RankEnd
from shardlab.ranks.explain import NOT_KEPT, explain, notes_by_rank
from shardlab.ranks.inside import World
from shardlab.ranks.libc import libc
from shardlab.ranks.stall import StallWatch, idle
from shardlab.ranks.watched import (
    Emit,
    Watched,
    anonymous_file,
    ask_for_stacks,
    content_of,
    notice_exit,
    read,
    read_all,
)

GRACE = 1.0  # seconds that the other ranks get to notice a failed rank before they are killed too


def supervise(
    program: Callable[[int], Sequence[inside.Part]],
    *,
    num_ranks: int,
    timeout: float,
    transport: str = "gloo",
    environment: Mapping[str, str] | None = None,
    observe: bool = True,
    emit: Emit = lambda rank, text: None,
    cancelled: Callable[[], bool] = lambda: False,
    most_output: int | None = None,
    joined: bool = True,
    uncounted: Callable[[], float] = float,
) -> Outcome:
    """Run `program(rank)` on forked ranks for at most `timeout` seconds and collect how each rank ended.

    `environment`: environment variables for the ranks, by default those of the transport. `joined=False` starts
    processes that form no group; `most_output` stops a call when a rank prints more bytes; `uncounted()` seconds are
    added to `timeout`.

    1. fork  2. watch pipes, exits and the clock  3. kill the remaining ranks  4. explain
    """
    began = time.monotonic()
    ledgers = [ledger.new_ledger() for _ in range(num_ranks)] if observe else []
    with _meeting_place() as store:
        variables = transports.environment(transport) if environment is None else environment
        world = World(num_ranks, transport, variables, timeout, store if joined else "", ledgers)
        ranks: list[Watched] = []
        try:
            for rank in range(num_ranks):
                ranks.append(_fork(program, rank, world, ranks))
            stall = StallWatch(ledgers)
            outcome = _watch(ranks, began, lambda: timeout + uncounted(), emit, cancelled, most_output, stall)
        finally:
            _end(ranks)
    outcome.ledgers = [ledger.read(memory) for memory in ledgers]
    outcome.notes = notes_by_rank([ledger.read_notes(memory) for memory in ledgers])
    for memory in ledgers:
        memory.close()
    outcome.report = explain(outcome, outcome.ledgers or [NOT_KEPT] * num_ranks, timeout)
    return outcome


@contextmanager
def _meeting_place() -> Iterator[str]:
    """A file for the ranks' rendezvous; on Linux it is in memory, named under /proc, and needs no writable folder."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("rendezvous", 0)
        try:
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield os.path.join(folder, "rendezvous")


def _fork(program: Callable[[int], Sequence[inside.Part]], rank: int, world: World, others: list[Watched]) -> Watched:
    output_out, output_in = os.pipe()
    result_out, result_in = os.pipe()
    stack = anonymous_file()
    sys.stdout.flush()
    sys.stderr.flush()
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        end_with_parent()
        if os.getppid() != supervisor:  # it died before we could ask to end with it
            os._exit(1)
        _forget_others(rank, world, others)
        os.close(output_out)
        os.close(result_out)
        memory = world.ledgers[rank] if world.ledgers else None
        inside.live(inside.RankContext(rank, world, supervisor, output_in, result_in, stack, memory), program)
    os.close(output_in)
    os.close(result_in)
    for descriptor in (output_out, result_out):
        os.set_blocking(descriptor, False)
    return Watched(pid, rank, output_out, result_out, stack)


def _forget_others(rank: int, world: World, others: list[Watched]) -> None:
    """In a new rank: close everything through which it could observe other ranks other than by messages."""
    for other in others:
        for descriptor in (other.output, other.result, other.stack):
            os.close(descriptor)
    for number, memory in enumerate(world.ledgers):
        if number != rank:
            memory.close()


def end_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies, however it dies."""
    _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _watch(
    ranks: list[Watched],
    began: float,
    timeout: Callable[[], float],
    emit: Emit,
    cancelled: Callable[[], bool],
    most_output: int | None,
    stall: StallWatch,
) -> Outcome:
    outcome = Outcome(ends=[], seconds=0.0)
    failed_at: float | None = None
    with selectors.DefaultSelector() as selector:
        for rank in ranks:
            selector.register(rank.output, selectors.EVENT_READ, (rank, "output"))
            selector.register(rank.result, selectors.EVENT_READ, (rank, "result"))
        while any(rank.end is None for rank in ranks):
            for key, _ in selector.select(0.02):
                rank, pipe = key.data
                read(selector, rank, pipe, emit)
            for rank in ranks:
                notice_exit(rank)
            now = time.monotonic()
            if failed_at is None and any(rank.end is not None and not rank.end.is_right for rank in ranks):
                failed_at = now
            outcome.timed_out = now - began > timeout() and failed_at is None
            outcome.cancelled = cancelled()
            too_loud = most_output is not None and any(rank.printed > most_output for rank in ranks)
            outcome.stalled = failed_at is None and stall.is_certain({r.rank: r.pid for r in ranks if r.end is None})
            if outcome.timed_out or outcome.cancelled or outcome.stalled or too_loud:
                break
            if failed_at is not None and now - failed_at > GRACE:
                break
        outcome.seconds = time.monotonic() - began
        unfinished = [rank for rank in ranks if rank.end is None]
        still = idle([rank.pid for rank in unfinished]) if outcome.timed_out else set()
        ask_for_stacks(unfinished)
        for rank in ranks:
            read_all(selector, rank, emit)
    outcome.ends = [rank.end or _when_ended(rank, rank.pid in still) for rank in ranks]
    return outcome


def _when_ended(rank: Watched, is_idle: bool) -> RankEnd:
    return RankEnd(stack=content_of(rank.stack), idle=is_idle, printed=rank.printed)


def _end(ranks: list[Watched]) -> None:
    """Kill every rank with its process group and reap it; close the pipes."""
    for rank in ranks:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(rank.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(rank.pid, signal.SIGKILL)
    for rank in ranks:
        if rank.exit_code is None:
            with suppress(ChildProcessError):
                os.waitpid(rank.pid, 0)
        for descriptor in (rank.output, rank.result, rank.stack):
            os.close(descriptor)
    _reap_strays()


def _reap_strays() -> None:
    """Kill and reap processes that ranks left running: the worker is their subreaper, so they are its children now."""
    if sys.platform != "linux":
        return
    for _ in range(100):
        with open("/proc/thread-self/children") as file:
            children = file.read().split()
        if not children:
            return
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(int(child), 0)


def adopt_orphans() -> None:
    """Become the parent of all processes that ranks leave running, so that they can be killed."""
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def _prctl(what: int, value: int) -> None:
    if sys.platform == "linux":
        libc().prctl(what, value, 0, 0, 0)
