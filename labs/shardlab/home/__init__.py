"""The learner's home page, `start.ipynb`: your progress, where to continue, help, and what is open in memory."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.home.live import show
    from shardlab.home.start import write_start
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
