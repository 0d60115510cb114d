"""Axes combined in one step: a GPT trained over data, pipeline and tensor parallel ranks, and the same asleep."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    asleep=("asleep_seconds", "predicted_seconds"),
    norm=("clip_by_whole_norm", "whole_norm"),
    stage=("StageOfGPT", "layers_of"),
    traffic=("sent_by_axis",),
    trainer=("HybridTrainer", "average_gradients"),
)
