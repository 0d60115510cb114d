"""Axes combined in one step: a GPT trained over dp, pp, cp, tp and ep, three axes of it in the small, and asleep."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.hybrid.asleep import asleep_seconds, predicted_seconds
    from shardlab.hybrid.layerwise import LayerByLayer
    from shardlab.hybrid.mesh_trainer import MeshTrainer
    from shardlab.hybrid.norm import whole_norm
    from shardlab.hybrid.pieces import after_load, chunks_to_load, chunks_to_save
    from shardlab.hybrid.race import raced
    from shardlab.hybrid.settings import Settings
    from shardlab.hybrid.stage import StageOfGPT, layers_of
    from shardlab.hybrid.suspects import FAULTS, NOTHING, gradients_of_suspect, joined
    from shardlab.hybrid.traffic import sent_by_axis
    from shardlab.hybrid.trainer import HybridTrainer
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
