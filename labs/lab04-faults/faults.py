"""Faults to inject into a training run from outside, without warning to the ranks and without their help."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
from watched import Watched

SILENCE = 4.0  # seconds without a heartbeat after which this lab's recipes consider a rank lost
BALLAST = "ballast"


@contextmanager
def kill(run: Watched, rank: int, folder: Path) -> Iterator[None]:
    """SIGKILL, as if the machine had run out of memory."""
    run.rank(rank).kill()
    yield


@contextmanager
def stop(run: Watched, rank: int, folder: Path) -> Iterator[None]:
    """SIGSTOP: the process is alive but does nothing, as with a hanging driver."""
    run.rank(rank).suspend()
    yield


@contextmanager
def slow(run: Watched, rank: int, folder: Path, *, share: float = 0.75, period: float = 0.08) -> Iterator[None]:
    """Suspend the rank repeatedly for a share of the time, like a processor that overheats."""
    process, end = run.rank(rank), Event()

    def hold() -> None:
        with suppress(psutil.NoSuchProcess):
            while not end.is_set():
                process.suspend()
                time.sleep(share * period)
                process.resume()
                time.sleep((1 - share) * period)

    thread = Thread(target=hold, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@contextmanager
def full_disk(run: Watched, rank: int, folder: Path) -> Iterator[None]:
    """Fill the checkpoint disk with a file, and remove it once the training run has noticed."""
    inside = Path("/proc", str(run.rank(rank).pid), "root")  # the disk is mounted only for the training processes
    ballast = inside / str(folder / "run" / "checkpoints").lstrip("/") / BALLAST
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(2**16))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def nothing(run: Watched, rank: int, folder: Path) -> Iterator[None]:
    """Do nothing: the rank itself is prepared, see poisoned_rank.py."""
    yield


@dataclass(frozen=True)
class Fault:
    """One kind of fault. does: active during the `with`. seen: a pattern of the line that reports it, with {rank}.

    limit: allowed seconds from the fault to that line if a step takes `step` seconds. survival: keys of the recipe.
    equal: whether all losses must equal those of a run without the fault.
    """

    does: Callable[[Watched, int, Path], AbstractContextManager[None]]
    happens: str
    seen: str
    limit: Callable[[float], float]
    survival: dict[str, Any] = field(default_factory=dict)
    is_lost: bool = True
    equal: bool = True


FAULTS = {
    "kill": Fault(kill, "rank {rank} gets SIGKILL", r"rank {rank} \(.* died at step", lambda step: 1.0),
    "stop": Fault(stop, "rank {rank} gets SIGSTOP", r"rank {rank} \(.* fell silent at step", lambda step: SILENCE + 1),
    "slow": Fault(
        slow,
        "rank {rank} gets a quarter of its time",
        r"rank {rank} \(.* is a straggler",
        lambda step: 6 * 4 * step + 1,  # three checks, the first possibly partly done, at a quarter of the speed
        {"look_for_slow": 1, "on_slow_rank": "end"},
    ),
    "nan": Fault(
        nothing,
        "one gradient of rank {rank} becomes NaN in step 5",
        r"skipped step 5: rank {rank}:",
        lambda step: 2 * step + 1,
        {"on_not_finite": "skip"},
        is_lost=False,
        equal=False,
    ),
    "full-disk": Fault(
        full_disk,
        "the disk of the checkpoints is full",
        r"checkpoint after step \d+ not written: rank \d+: No space left",
        lambda step: 2 * 4 * step + 2,  # the next checkpoint is at most four steps away
        is_lost=False,
    ),
}


def on_a_small_disk(folder: Path, command: list[str]) -> list[str]:
    """The command with a separate 64 MiB in-memory disk for the checkpoints in `folder`, visible only to it."""
    checkpoints = folder / "run" / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    mount = f'mount -t tmpfs -o size=64m tmpfs "{checkpoints}" && exec "$@"'
    whose = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    return ["unshare", *whose, "sh", "-c", mount, "sh", *command]


def signalled(code: int) -> str:
    """An exit code as text."""
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
