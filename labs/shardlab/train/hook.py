"""Callbacks of the training loop, used for heartbeats and stragglers, and for your own experiments."""

from __future__ import annotations

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
