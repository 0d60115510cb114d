"""The oral bank: questions about distributed training, and model answers whose numbers are computed, never written."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    asking=("Asked", "asked_in_random_order"),
    bank=("QUESTIONS",),
    question=("Question", "Setting"),
)
