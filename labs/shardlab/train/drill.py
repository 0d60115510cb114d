"""A failure drill: kill one rank on purpose, in a training run with a temporary folder."""

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
    """Sends SIGKILL to rank `rank` before step `step`, so that it cannot report anything."""

    def __init__(self, rank: int, *, step: int) -> None:
        """Raises ValueError for a step or rank that cannot exist."""
        if rank < 0 or step < 1:
            raise ValueError(f"rank {rank} cannot be killed before step {step}: ranks count from 0, steps from 1")
        self.rank, self.step = rank, step

    def on_step(self, training: Training, step: int) -> None:
        """Kill this process if this is the rank and the step."""
        if step == self.step and training.rank == self.rank:
            os.kill(os.getpid(), signal.SIGKILL)


def new_folder() -> Path:
    """A new temporary folder, removed when this process ends."""
    folder = Path(mkdtemp(prefix="sys602-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
