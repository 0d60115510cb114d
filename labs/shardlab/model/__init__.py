"""The models, written for a single device without any parallelism."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.model import adam
    from shardlab.model.attention import LatentAttention, angles, turns_of
    from shardlab.model.gpt import GPT, Block, GPTConfig, next_token_loss
    from shardlab.model.modern import ModernBlock
    from shardlab.model.moe import MoE, MoEConfig
    from shardlab.model.moe_gpt import MoEGPT, routed, specialisation, visits_by_kind
    from shardlab.model.permutation import Capacity
    from shardlab.model.recomputation import recompute
    from shardlab.model.router import Choice, Routing, auxiliary_loss, load_of, route, updated_bias
    from shardlab.model.text import batch_of, read_text
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
