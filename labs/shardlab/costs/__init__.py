"""One function per formula, in pure Python without torch. Each docstring gives the formula's source."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.costs import compression, links, overlap, traffic
    from shardlab.costs.axis_traffic import activation_bytes_of, pp_boundary_bytes
    from shardlab.costs.compression import plus_bytes
    from shardlab.costs.context import kv_bytes, least_tokens_to_hide, ulysses_bytes
    from shardlab.costs.experts import (
        dropped_share,
        exchange_bytes,
        expert_state_bytes,
        expert_tensor_bytes,
        fullest_expert,
        layer_exchange_bytes,
        split_expert_bytes,
        two_level_bytes,
    )
    from shardlab.costs.hardware import GIB
    from shardlab.costs.layout import Layout
    from shardlab.costs.machines import find_accelerator, links_of
    from shardlab.costs.memory.activations import (
        cache_bytes,
        latent_attention_bytes,
        layer_activation_bytes_exactly,
    )
    from shardlab.costs.memory.states import parameters_on_stage, shard_elements, state_bytes, zero_state_bytes
    from shardlab.costs.models.flops import (
        attention_core_flops,
        layer_matmul_flops,
        model_flops_per_token,
        output_flops,
        utilisation,
    )
    from shardlab.costs.models.model import num_parameters
    from shardlab.costs.models.zoo import find_model
    from shardlab.costs.planning.planner import Search, plan
    from shardlab.costs.traffic import ring_all_gather_bytes, ring_all_reduce_bytes
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
