"""A heartbeat (心跳) per rank: a thread keeps writing where the rank is, also while the rank waits for others.

Only a rank that is dead or stopped falls silent; the ranks that wait for it do not.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from shardlab.mesh.axes import Mesh
from shardlab.train.hook import Hook

if TYPE_CHECKING:
    from shardlab.train.checkpoint_save import Saved
    from shardlab.train.logs import LoggedStep
    from shardlab.train.loop import Training

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
