"""The formulas compared with published runs, every source predicted by constants that never saw it."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.costs.validation.published import read_runs
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
