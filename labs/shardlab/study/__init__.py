"""Self-study that keeps going: the learner's pages, newer pages under the same answers, and where the learner stands."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    folder=("Folder", "begin"),
    panels=("hint", "offer_hint", "panel", "solution"),
    records=("note",),
)
