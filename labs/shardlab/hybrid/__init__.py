"""Several axes in one step: a GPT trained over dp, pp, cp, tp and ep, and a step with emulated timing."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.hybrid.emulated import emulated_seconds, predicted_seconds
    from shardlab.hybrid.groups import sent_by_axis
    from shardlab.hybrid.layerwise import LayerByLayer
    from shardlab.hybrid.mesh_trainer import MeshTrainer
    from shardlab.hybrid.part import layers_of
    from shardlab.hybrid.pieces import after_load, chunks_to_load, chunks_to_save
    from shardlab.hybrid.race import raced
    from shardlab.hybrid.settings import Settings
    from shardlab.hybrid.suspects import FAULTS, NOTHING, gradients_of_suspect, joined
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
