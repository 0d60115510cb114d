"""Our layer compared with megatron-core's MoELayer and both of its dispatchers: same weights, same ranks."""

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


def beside(dispatcher, sigmoid):
    sys.path.insert(0, LAB)
    from megatron_experts import megatron_layer, take_expert_weights
    from on_cpu import megatron_on_cpu

    megatron_on_cpu(1)
    torch.set_num_threads(1)
    choice = Choice(EXPERTS, 2, renormalise=True, **({"score": torch.sigmoid, "scale": 2.5} if sigmoid else {}))
    options = {
        "moe_router_topk": 2,
        **({"moe_router_score_function": "sigmoid", "moe_router_topk_scaling_factor": 2.5} if sigmoid else {}),
    }
    torch.manual_seed(0)
    whole = MoE(MoEConfig(HIDDEN, WIDTH, choice))
    for one in whole.parameters():
        nn.init.normal_(one, std=0.3)
    ours = ParallelMoE(whole, Splits(None))
    theirs = megatron_layer(dispatcher, hidden=HIDDEN, width=WIDTH, experts=EXPERTS, **options)
    take_expert_weights(theirs, ours)
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
