"""Compare the formulas with published runs; every source is predicted by constants fitted without it."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.costs.validation.published import read_runs
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
