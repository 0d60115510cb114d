"""Axes combined in one step: a GPT trained over data, pipeline and tensor parallel ranks, and the same asleep."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    trainer=(
        "HybridTrainer",
        "StageOfGPT",
        "average_gradients",
        "clip_by_whole_norm",
        "layers_of",
        "sent_by_axis",
        "whole_norm",
    ),
    asleep=("asleep_seconds", "predicted_seconds"),
)
