"""Layouts enumerated, pruned and ranked; why the best wins; layers cut into stages."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.costs.planning.pieces import best_stages
    from shardlab.costs.planning.planner import peak_memory, seconds_of, usable_bytes
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
