"""Axes combined in one step: a GPT trained over dp, pp, cp, tp and ep, three axes of it in the small, and asleep."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    asleep=("asleep_seconds", "predicted_seconds"),
    clipping=("NotFinite",),
    layerwise=("LayerByLayer",),
    mesh_trainer=("MeshTrainer", "Step"),
    norm=("clip_by_whole_norm", "whole_norm"),
    pieces=("Chunk", "after_load", "chunks_to_load", "chunks_to_save"),
    race=("raced",),
    settings=("Settings",),
    stage=("StageOfGPT", "layers_of"),
    suspects=("FAULTS", "NOTHING", "gradients_of_suspect", "joined"),
    traffic=("sent_by_axis",),
    trainer=("HybridTrainer", "average_gradients"),
)
