"""Hooks that watch ranks: a heartbeat (心跳) finds one that is lost, and the meter finds a straggler (慢节点).

Heartbeat: a thread of each rank keeps writing where the rank is, also while the rank waits for others. Only a rank that
is dead or stopped falls silent. Straggler: all ranks' steps take equally long, but the time that a rank does not spend
waiting for messages is its working time, and a slow rank that all others wait for works longest.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psutil
import torch.distributed as dist

from shardlab.hybrid.groups import WORLD
from shardlab.mesh.axes import Mesh
from shardlab.meter.record import Bill, record
from shardlab.train.hook import Hook

if TYPE_CHECKING:
    from shardlab.train.checkpoint_save import Saved
    from shardlab.train.logs import LoggedStep
    from shardlab.train.loop import Training
    from shardlab.train.recipe import Recipe

FOLDER = "SHARDLAB_BEATS"  # environment variable with the heartbeat folder
ATTEMPT = "TORCHELASTIC_RESTART_COUNT"  # torchrun's variable with the number of the attempt
BEAT = 0.2  # seconds between two heartbeats
AT_ITS_END = "at its end"


@dataclass(frozen=True)
class Beat:
    """Where a rank is.

    born: from `birth_of`, because process ids are reused. at: seconds of the machine's monotonic clock, so that setting
    the time of day does not make a rank look silent.
    """

    rank: int
    pid: int
    born: float
    attempt: int
    place: str
    step: int
    doing: str
    at: float


class Heart(Hook):
    """Writes this rank's heartbeat until it is stopped."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._path = folder / f"rank-{rank}.json"
        self._rank, self._born = rank, birth_of(psutil.Process())
        self._place, self._step, self._doing = "", 0, "meeting the other ranks"
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The rank ends normally: mark it so that it is not reported as lost."""
        self._doing = AT_ITS_END
        self._end.set()
        self._thread.join()

    def on_begin(self, training: Training) -> None:
        self._place = place_of(training.trainer.mesh, self._rank)
        self._step, self._doing = training.done, "about to begin"

    def on_step(self, training: Training, step: int) -> None:
        self._step, self._doing = step, "in its passes"

    def on_end(self, training: Training, row: LoggedStep) -> None:
        self._doing = "after its passes"

    def on_saved(self, training: Training, saved: Saved) -> None:
        self._doing = "after a checkpoint"

    def _beat(self) -> None:
        attempt, draft = int(os.environ.get(ATTEMPT, "0")), self._path.with_suffix(".part")
        while True:
            is_last = self._end.is_set()
            now = (self._place, self._step, self._doing, time.monotonic())
            beat = Beat(self._rank, os.getpid(), self._born, attempt, *now)
            try:
                draft.write_text(json.dumps(asdict(beat)), encoding="utf-8")
                draft.replace(self._path)
            except OSError:
                return  # the folder is gone with its observer, or the disk is full: an observer sees a silent rank
            if is_last:
                return
            self._end.wait(BEAT)


@contextmanager
def beating(rank: int) -> Iterator[list[Hook]]:
    """The hooks of a rank: a heartbeat if the launching process observes it, else none."""
    folder = os.environ.get(FOLDER)
    if not folder:
        yield []
        return
    heart = Heart(Path(folder), rank)
    try:
        yield [heart]
    finally:
        heart.stop()


def birth_of(process: psutil.Process) -> float:
    """Seconds from the machine's boot to the process's start, to within 1; setting the clock does not change it."""
    return process.create_time() - psutil.boot_time()


def place_of(mesh: Mesh, rank: int) -> str:
    """A rank's coordinates on the axes of size 2 or more: "dp 1 tp 0"."""
    places = mesh.coordinates(rank)
    return " ".join(f"{axis} {places[axis]}" for axis in ("dp", "pp", "cp", "tp", "ep") if getattr(mesh, axis) > 1)


def beats(folder: Path) -> list[Beat]:
    """The latest heartbeat of every rank."""
    found = []
    for path in sorted(folder.glob("rank-*.json")):
        with suppress(FileNotFoundError):  # the rank has just ended normally
            found.append(Beat(**json.loads(path.read_text(encoding="utf-8"))))
    return found


FACTOR, LEAST = 1.5, 0.1  # a straggler works this many times as long as its peers, and this many seconds longer
LOOKS = 3  # in a row: a machine may be busy once


def slowest(working: Sequence[float], stages: Sequence[int]) -> tuple[int, float] | None:
    """The rank with the largest ratio of its working time to its peers' median, and that ratio; None for one rank.

    working: seconds of each rank in a step without waiting. stages: of each rank; only ranks of one stage have the same
    work. The only rank of a stage is compared with all others.
    """
    times = []
    for rank, seconds in enumerate(working):
        others = [other for other in range(len(working)) if other != rank]
        alike = [other for other in others if stages[other] == stages[rank]] or others
        if alike:
            times.append((seconds / median(working[other] for other in alike), rank))
    if not times:
        return None
    longest, rank = max(times)
    return rank, longest


class Lookout(Hook):
    """Compares ranks every `every` steps; reports a rank that is too slow several times in a row, and may end it.

    ends: the straggler kills itself with SIGKILL, and the run continues as after any lost rank.
    """

    def __init__(self, every: int, *, ends: bool) -> None:
        self._every, self._ends = every, ends
        self._open = ExitStack()
        self._looked: tuple[float, Bill] | None = None  # when the step began, and its bill
        self._suspects: list[int] = []

    def on_step(self, training: Training, step: int) -> None:
        self._open.close()  # still open after a skipped step
        self._looked = None
        measured = training.recipe.log.measure
        if step % self._every == 0 and step not in (measured, measured + 1):
            self._looked = time.perf_counter(), self._open.enter_context(record())

    def on_end(self, training: Training, row: LoggedStep) -> None:
        if self._looked is not None:
            began, bill = self._looked
            working = time.perf_counter() - began - bill.exposed_seconds
            self._open.close()
            self._looked = None
            self._compare(training, working)

    def _compare(self, training: Training, working: float) -> None:
        """Exchange working times between all ranks; every rank reaches the same result."""
        group, mesh = training.trainer.groups.of(*WORLD), training.trainer.mesh
        by_rank: list[float] = [0.0] * dist.get_world_size(group)
        dist.all_gather_object(by_rank, working, group=group)
        stages = [mesh.coordinates(rank)["pp"] for rank in range(len(by_rank))]
        found = slowest(by_rank, stages)
        if found is None or found[1] < FACTOR or by_rank[found[0]] * (1 - 1 / found[1]) < LEAST:
            self._suspects = []
            return
        rank, times = found
        self._suspects = [*(self._suspects if self._suspects[-1:] == [rank] else []), rank]
        if len(self._suspects) < LOOKS:
            return
        self._suspects = []
        training.logs.say(
            f"rank {rank} ({place_of(mesh, rank)}) is a straggler: it worked {by_rank[rank]:.2f} s in step "
            f"{training.done}, {times:.1f} times as long as ranks with the same work, {LOOKS} times in a row"
        )
        if self._ends and training.rank == rank:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)


def lookouts(recipe: Recipe) -> list[Hook]:
    """The hooks of a recipe: a straggler lookout if the recipe asks for one."""
    given = recipe.survival
    return [Lookout(given.look_for_slow, ends=given.on_slow_rank == "end")] if given.look_for_slow else []
