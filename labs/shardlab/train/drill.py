"""A drill for the worst: one rank is killed on purpose, in a training whose folder nobody misses."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from shardlab.train.hook import Hook

if TYPE_CHECKING:
    from shardlab.train.loop import Training


class KillRank(Hook):
    """SIGKILL to rank `rank` before step `step`: it can neither catch it nor say anything."""

    def __init__(self, rank: int, *, step: int) -> None:
        """Raises ValueError for a step or rank that no training has."""
        if rank < 0 or step < 1:
            raise ValueError(f"rank {rank} cannot be killed before step {step}: ranks count from 0, steps from 1")
        self.rank, self.step = rank, step

    def on_step(self, training: Training, step: int) -> None:
        """Kill, if this is the rank and the step."""
        if step == self.step and training.rank == self.rank:
            os.kill(os.getpid(), signal.SIGKILL)


def new_folder() -> Path:
    """A folder of its own among the machine's temporary files, until this process ends."""
    folder = Path(mkdtemp(prefix="sys602-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
