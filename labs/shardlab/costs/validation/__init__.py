"""The formulas compared with published runs, every source predicted by constants that never saw it."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    published=("read_runs",),
)
