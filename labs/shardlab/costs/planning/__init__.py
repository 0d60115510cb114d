"""Enumerate, prune and rank layouts; explain why the best wins; partition layers into stages."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.costs.planning.partition import best_stages
    from shardlab.costs.planning.planner import peak_memory, seconds_of, usable_bytes, work_by_kind
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
