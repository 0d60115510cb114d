"""Layouts enumerated, pruned and ranked; why the best wins; layers cut into stages."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    pieces=("best_stages",),
    planner=("Search", "peak_memory", "plan", "seconds_of", "usable_bytes"),
)
