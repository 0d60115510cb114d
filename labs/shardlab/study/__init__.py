"""Self-study that keeps going: the learner's pages, newer text under the same answers, and progress."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    folder=("Folder", "begin"),
    interview=(),
    panels=("hint", "offer_hint", "panel", "solution"),
    records=("note",),
)
