"""Axes combined in one step: a GPT trained over dp, pp, cp, tp and ep, and a step with emulated timing."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    emulated=("emulated_seconds", "predicted_seconds"),
    clipping=("NotFinite",),
    layerwise=("LayerByLayer",),
    mesh_trainer=("MeshTrainer", "Step"),
    part=("layers_of",),
    pieces=("Chunk", "after_load", "chunks_to_load", "chunks_to_save"),
    race=("raced",),
    settings=("Settings",),
    suspects=("FAULTS", "NOTHING", "gradients_of_suspect", "joined"),
    traffic=("sent_by_axis",),
)
