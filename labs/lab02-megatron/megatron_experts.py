"""Megatron's MoE layer on CPU ranks with our weights; every rank has different experts."""

from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import nn


def megatron_layer(
    dispatcher: Literal["alltoall", "allgather"], *, hidden: int, width: int, experts: int, **options: Any
) -> nn.Module:
    """A MoELayer over all ranks of the world; call `megatron_on_cpu` first.

    dispatcher: alltoall or allgather. options: additional TransformerConfig fields.
    """
    from megatron.core import parallel_state
    from megatron.core.models.gpt.moe_module_specs import get_moe_module_spec
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.moe.moe_layer import MoELayer

    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(expert_model_parallel_size=dist.get_world_size())
    random.model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(
        num_layers=1, hidden_size=hidden, num_attention_heads=2, num_moe_experts=experts, moe_ffn_hidden_size=width,
        expert_model_parallel_size=dist.get_world_size(), moe_token_dispatcher_type=dispatcher, add_bias_linear=False,
        use_cpu_initialization=True, bias_activation_fusion=False, gradient_accumulation_fusion=False,
        moe_router_load_balancing_type="none", params_dtype=torch.float32, **options,
    )  # fmt: skip
    spec: Any = get_moe_module_spec(use_te=False, num_experts=experts, moe_grouped_gemm=False)
    return MoELayer(config, submodules=spec.submodules, layer_number=1)


def take_expert_weights(theirs: Any, ours: Any) -> None:
    """Copy our weights into Megatron's matrices, which are [outputs, inputs] per expert."""
    with torch.no_grad():
        theirs.router.weight.copy_(ours.router.weight)
        for number, expert in enumerate(theirs.experts.local_experts):
            expert.linear_fc1.weight.copy_(ours.experts.up[number].t())
            expert.linear_fc2.weight.copy_(ours.experts.down[number].t())
