"""Callbacks of the training loop, for heartbeats, stragglers and your own experiments, such as killing a rank."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlab.train.checkpoint_save import Saved
    from shardlab.train.logs import LoggedStep
    from shardlab.train.loop import Training


class Hook:
    """Callback base class: override the methods you need. Every rank calls its hooks in the same order."""

    def on_begin(self, training: Training) -> None:
        """Called when everything is built and a checkpoint, if any, is loaded; `training.done` steps are done."""

    def on_step(self, training: Training, step: int) -> None:
        """Called before step number `step`, counted from 1."""

    def on_end(self, training: Training, row: LoggedStep) -> None:
        """Called after a step has been logged and before its checkpoint begins."""

    def on_saved(self, training: Training, saved: Saved) -> None:
        """Called when a checkpoint has been written or has failed."""


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
