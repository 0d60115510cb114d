"""Our layer beside megatron-core's MoELayer with both of its dispatchers, for the same weights on the same ranks."""

import sys
from pathlib import Path

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.expert_parallel import ParallelMoE, Splits
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.router import Choice
from torch import nn

LAB = str(Path(__file__).parents[3] / "labs" / "lab02-megatron")
HIDDEN, WIDTH, EXPERTS = 16, 32, 8
pytestmark = [
    pytest.mark.slow,  # each rank imports Megatron
    pytest.mark.skipif(
        sys.platform != "linux" or sys.version_info >= (3, 14), reason="megatron-core is built for neither"
    ),
]


def their_layer(dispatcher, sizes, width, **options):
    """Megatron's layer on CPU ranks, every rank with other experts."""
    sys.path.insert(0, LAB)
    from on_cpu import megatron_on_cpu

    megatron_on_cpu(1)
    from megatron.core import parallel_state
    from megatron.core.models.gpt.moe_module_specs import get_moe_module_spec
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.moe.moe_layer import MoELayer

    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(expert_model_parallel_size=dist.get_world_size())
    random.model_parallel_cuda_manual_seed(1)
    hidden, experts = sizes
    config = TransformerConfig(
        num_layers=1, hidden_size=hidden, num_attention_heads=2, num_moe_experts=experts, moe_ffn_hidden_size=width,
        expert_model_parallel_size=dist.get_world_size(), moe_token_dispatcher_type=dispatcher, add_bias_linear=False,
        use_cpu_initialization=True, bias_activation_fusion=False, gradient_accumulation_fusion=False,
        params_dtype=torch.float32, **options,
    )  # fmt: skip
    spec = get_moe_module_spec(use_te=False, num_experts=experts, moe_grouped_gemm=False)
    return MoELayer(config, submodules=spec.submodules, layer_number=1)


def copy_weights(ours, theirs):
    """Ours into theirs, whose matrices are [outputs, inputs], one expert after the other."""
    with torch.no_grad():
        theirs.router.weight.copy_(ours.router.weight)
        for number, expert in enumerate(theirs.experts.local_experts):
            expert.linear_fc1.weight.copy_(ours.experts.up[number].t())
            expert.linear_fc2.weight.copy_(ours.experts.down[number].t())


def beside(dispatcher, sigmoid):
    torch.set_num_threads(1)
    choice = Choice(EXPERTS, 2, renormalise=True, **({"score": torch.sigmoid, "scale": 2.5} if sigmoid else {}))
    options = {
        "moe_router_topk": 2, "moe_router_load_balancing_type": "none",
        **({"moe_router_score_function": "sigmoid", "moe_router_topk_scaling_factor": 2.5} if sigmoid else {}),
    }  # fmt: skip
    torch.manual_seed(0)
    whole = MoE(MoEConfig(HIDDEN, WIDTH, choice))
    for one in whole.parameters():
        nn.init.normal_(one, std=0.3)
    ours, theirs = ParallelMoE(whole, Splits(None)), their_layer(dispatcher, (HIDDEN, EXPERTS), WIDTH, **options)
    copy_weights(ours, theirs)
    x = torch.randn(6, 2, HIDDEN, generator=torch.Generator().manual_seed(dist.get_rank()))
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [ours(leaves[0]), theirs(leaves[1])[0]]
    for output in outputs:
        output.square().sum().backward()
    pairs = [outputs, [leaf.grad for leaf in leaves], (ours.router.weight.grad, theirs.router.weight.grad)]
    for number, expert in enumerate(theirs.experts.local_experts):
        pairs.append((ours.experts.up.grad[number], expert.linear_fc1.weight.grad.t()))
        pairs.append((ours.experts.down.grad[number], expert.linear_fc2.weight.grad.t()))
    return max(((one - other).abs().max() / other.abs().max()).item() for one, other in pairs)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("dispatcher", ["alltoall", "allgather"])
@pytest.mark.parametrize("sigmoid", [False, True], ids=["softmax", "sigmoid"])
def test_our_layer_is_megatrons(dispatcher, ranks, sigmoid):
    apart = shardlab.run(beside, dispatcher, sigmoid, ranks=ranks, timeout=150, transport="gloo")
    assert max(apart) < 1e-5
