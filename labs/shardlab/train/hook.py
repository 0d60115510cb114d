"""What looks on while a training runs: heartbeats, stragglers, and whatever a reader wants to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlab.train.checkpoint_save import Saved
    from shardlab.train.logs import LoggedStep
    from shardlab.train.loop import Training


class Hook:
    """Something that looks on, or interferes; a subclass overrides what it needs. Ranks call hooks alike."""

    def on_begin(self, training: Training) -> None:
        """Everything is built, and loaded where there was a checkpoint; `training.done` steps are behind us."""

    def on_step(self, training: Training, step: int) -> None:
        """Step number `step`, from 1 on, is about to begin."""

    def on_end(self, training: Training, row: LoggedStep) -> None:
        """A step has ended, and is logged; its checkpoint has not begun."""

    def on_saved(self, training: Training, saved: Saved) -> None:
        """A checkpoint has ended, well or not."""
