"""Inside one rank: join the group, run the function, send the result."""

from __future__ import annotations

import datetime
import faulthandler
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from mmap import mmap
from typing import NoReturn

import torch
import torch.distributed as dist

from shardlab.meter.ledger import Writer
from shardlab.meter.place import is_cell, is_ours
from shardlab.meter.record import recording
from shardlab.ranks import transports
from shardlab.ranks.libc import libc
from shardlab.ranks.rendezvous import meet

RESULT, ERROR = b"R", b"E"
LENGTH = struct.Struct("<Q")  # precedes a rank's message
MOST_PARTS = 1024  # how many parts of a message one writev call can write on Linux
Part = bytes | memoryview  # a part of a message


@dataclass(frozen=True)
class World:
    """The data that all ranks of a call share; `store` is the path of the rendezvous file ("" for no group)."""

    num_ranks: int
    transport: str
    environment: Mapping[str, str]
    timeout: float
    store: str
    ledgers: list[mmap]


@dataclass(frozen=True)
class RankContext:
    """One rank's own data: its number, its supervisor's process id, its file descriptors, its ledger."""

    rank: int
    world: World
    supervisor: int
    output: int
    result: int
    stack: int
    ledger: mmap | None


def live(seat: RankContext, program: Callable[[int], Sequence[Part]]) -> NoReturn:
    """Run `program(rank)` as one rank of the world, send its message, and exit without returning.

    1. connect the pipes  2. join the group  3. run  4. send  5. wait until the supervisor ends all ranks together
    """
    answer: list[Part] = [ERROR, b"the rank ended early"]
    try:
        _connect(seat)
        _join_world(seat)
        with observed(Writer(seat.ledger)) if seat.ledger is not None else nullcontext():
            answer = [RESULT, *program(seat.rank)]
    except BaseException as error:
        answer = [ERROR, own_traceback(error).encode(errors="replace")]
    with suppress(OSError, ValueError):  # the function closed them: its prints are lost, but not its result
        sys.stdout.flush()
        sys.stderr.flush()
    try:
        send(seat.result, answer)
    except OSError:  # a closed pipe, or unreadable memory
        os._exit(1)
    while os.getppid() == seat.supervisor:  # peers may still read: closing our sockets could cut them off
        time.sleep(0.2)
    os._exit(0)  # skip destructors: gloo's may abort when a peer is gone


@contextmanager
def observed(writer: Writer | None = None) -> Iterator[None]:
    """Record the calls of one function and note calls that were never waited for; without a writer, print the notes.

    Such calls are reported only if the function returned: after an error they are to be expected.
    """
    with recording(writer) as recorder:
        yield
        recorder.note_unwaited()
    if writer is None:
        for text in recorder.notes:
            print(f"rank {os.environ['RANK']} {text}", file=sys.stderr, flush=True)


def _connect(seat: RankContext) -> None:
    """Redirect prints to the output pipe, and have faulthandler write our stack on the supervisor's signal."""
    os.dup2(seat.output, 1)
    os.dup2(seat.output, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False, errors="replace")  # noqa: SIM115 - as long as the rank lives
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="replace")  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.register(signal.SIGUSR1, file=seat.stack, all_threads=True)


def _join_world(seat: RankContext) -> None:
    world = seat.world
    os.environ.update(world.environment)
    os.environ.update(RANK=str(seat.rank), LOCAL_RANK=str(seat.rank), WORLD_SIZE=str(world.num_ranks))
    if world.store:
        join(world.transport, dist.FileStore(world.store, world.num_ranks), seat.rank, world.num_ranks, world.timeout)


def join(transport: str, store: dist.Store, rank: int, num_ranks: int, timeout: float) -> None:
    """Initialize the default process group; on GPUs bind the device first. Collectives time out after `timeout`."""
    keep_freed_memory()
    limit = datetime.timedelta(seconds=timeout + 10)  # later than the supervisor, which can explain a hang
    backend = transports.GLOO
    if transport != transports.GLOO:
        torch.cuda.set_device(rank if transport == transports.NCCL else 0)
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, store=store, rank=rank, world_size=num_ranks, timeout=limit)


def keep_freed_memory() -> None:
    """Make glibc reuse the memory of freed tensors in this rank.

    By default, Linux allocates new pages for every large tensor and takes them back when it is freed. For an all-reduce
    of 64 MB that takes as long as all its messages, and hides what a lesson measures.
    """
    mallopt = getattr(libc(), "mallopt", None)
    if mallopt is not None:
        mallopt(-4, 0)  # M_MMAP_MAX: no separate mapping for any tensor
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: return no memory to the system


@contextmanager
def torchrun_group(timeout: float = 60.0) -> Iterator[dist.ProcessGroup]:
    """The world group of a script started with `torchrun`; joins on entry, records calls, and leaves on exit.

    >>> with torchrun_group() as group:
    ...     ring_all_reduce(tensor, group=group)
    """
    if "RANK" not in os.environ:
        raise RuntimeError("there are no ranks: start this script with `torchrun --nproc-per-node 4 SCRIPT`")
    local = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    transport = transports.choose_transport(local)
    if local == int(os.environ["WORLD_SIZE"]):  # one machine: loopback is enough
        os.environ.update(transports.environment(transport))
    elif "GLOO_SOCKET_IFNAME" not in os.environ:  # gloo would resolve the host name, which may give loopback
        os.environ["GLOO_SOCKET_IFNAME"] = transports.interface_towards(os.environ["MASTER_ADDR"])
    if transport != transports.GLOO:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % transports.count_gpus())
    backend = transports.GLOO if transport == transports.GLOO else "cpu:gloo,cuda:nccl"
    meet(backend, timeout)
    try:
        with observed():
            yield dist.group.WORLD  # type: ignore[misc]
    finally:
        dist.destroy_process_group()


def send(pipe: int, parts: Sequence[Part]) -> None:
    """Write the total length of `parts`, then each part without copying it, and close the pipe.

    The reader needs the length, because a child process may keep the pipe open.
    """
    left = [memoryview(part) for part in (LENGTH.pack(sum(map(len, parts))), *parts)]
    while left:
        written = os.writev(pipe, left[:MOST_PARTS])
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if left:
            left[0] = left[0][written:]
    os.close(pipe)


def own_traceback(error: BaseException) -> str:
    """The traceback of an exception, without the frames of shardlab above the student's function."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not is_ours(frame.filename)]
    lines = traceback.format_exception_only(error)
    if theirs and any(is_cell(f.filename) for f in theirs):
        theirs = theirs[next(i for i, f in enumerate(theirs) if is_cell(f.filename)) :]
    return "".join(["Traceback (most recent call last):\n", *traceback.format_list(theirs), *lines]).rstrip()
