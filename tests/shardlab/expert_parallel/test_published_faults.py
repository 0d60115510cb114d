"""Published bugs, each planted next to our code: the reported symptom shows up, and our code does not have it."""

from copy import deepcopy

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.expert_parallel import (
    ParallelMoE,
    Splits,
    all_to_all,
    average_gradients,
    clip_gradients,
    norm_of_gradients,
)
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.recomputation import recompute
from shardlab.model.router import Choice, auxiliary_loss
from torch import nn

HIDDEN, ROWS = 8, 6
PLAIN = MoEConfig(HIDDEN, 8, Choice(8, 2))
BALANCED = MoEConfig(HIDDEN, 8, Choice(8, 2), auxiliary=0.5)


def built(config):
    torch.manual_seed(0)
    whole = MoE(config)
    for one in whole.parameters():
        nn.init.normal_(one, std=0.4)
    return whole


def batches(size):
    return list(torch.randn(size, ROWS, HIDDEN, generator=torch.Generator().manual_seed(1)))


def alone():
    return dist.new_subgroups(1)[0]


def trained(config, expert_group=None):
    """A split layer after this rank's backward, averaged; and the whole layer after the backward of all tokens."""
    whole, xs = built(config), batches(dist.get_world_size())
    layer = ParallelMoE(deepcopy(whole), Splits(None))
    layer(xs[dist.get_rank()]).square().sum(-1).mean().backward()
    average_gradients(layer, group=None, expert_group=alone() if expert_group is None else expert_group)
    whole(torch.cat(xs)).square().sum(-1).mean().backward()
    return layer, whole


def own(gradient):
    return gradient.chunk(dist.get_world_size())[dist.get_rank()]


# ---- deepspeedai/DeepSpeed#5618, #6546: divided by copies of an expert, so ep times too large; Adam hides it --------


def factors_of_experts():
    layer, whole = trained(PLAIN)
    ours, due = layer.experts.up.grad, own(whole.experts.up.grad)
    divided_by_copies = ours * dist.get_world_size()  # edp = 1 if all ranks have different experts
    steps = []
    for gradient in (ours, divided_by_copies):
        weight = nn.Parameter(layer.experts.up.detach().clone())
        weight.grad = gradient.clone()
        torch.optim.Adam([weight], lr=0.1, eps=1e-12).step()
        steps.append(weight.detach())
    used = due.abs() > 1e-6
    return (ours / due)[used].mean().item(), (divided_by_copies / due)[used].mean().item(), torch.dist(*steps).item()


@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_of_experts_are_divided_by_all_ranks_with_tokens(ranks):
    for ours, planted, apart_after_adam in shardlab.run(factors_of_experts, ranks=ranks, timeout=60):
        assert ours == pytest.approx(1, abs=1e-4) and planted == pytest.approx(ranks, rel=1e-4)
        assert apart_after_adam < 1e-5  # why it went unnoticed


# ---- PaddlePaddle/PaddleFormers#3010, NVIDIA/Megatron-LM#3626: a rank without rows skips its backward exchange -----


def calls_of_a_rank_without_tokens(to_nobody):
    layer = ParallelMoE(built(PLAIN), Splits(None))
    if to_nobody:  # and no rows arrive: all choose experts of rank 0
        layer.router.get_buffer("bias_E")[:2] = 100.0
    rows = 0 if dist.get_rank() == 1 and not to_nobody else ROWS
    x = torch.randn(rows, HIDDEN).requires_grad_()
    with meter.record() as bill:
        layer(x).sum().backward()
    return bill.kinds, layer.experts.up.grad is not None


@pytest.mark.parametrize("to_nobody", [False, True], ids=["no tokens", "no rows"])
def test_a_rank_without_rows_keeps_its_place_in_the_backward(to_nobody):
    calls = ["all_to_all"] * 5
    assert shardlab.run(calls_of_a_rank_without_tokens, to_nobody, ranks=2, timeout=60) == [(calls, True)] * 2


def skips_its_backward():
    """As in the report: a rank without rows continues with a fresh tensor that has no autograd history."""
    group, rank = dist.group.WORLD, dist.get_rank()
    x = torch.ones(2, 2, requires_grad=True)
    y = all_to_all(x, [2, 0], [2, 2] if rank == 0 else [0, 0], group=group)
    y = y if len(y) else torch.empty(0, 2, requires_grad=True)
    y.sum().backward()
    return x.grad


def test_without_its_place_the_others_hang():
    with pytest.raises(shardlab.RanksFailed) as hung:
        shardlab.run(skips_its_backward, ranks=2, timeout=8)
    assert "all_to_all" in str(hung.value)


# ---- NVIDIA/Megatron-LM#5916: the norm for clipping leaves out the experts of other ranks ---------------------------


def norms():
    layer, whole = trained(PLAIN)
    local = torch.stack([one.grad.norm() for one in layer.parameters()]).norm().item()
    due = torch.stack([one.grad.norm() for one in whole.parameters()]).norm().item()
    norm = norm_of_gradients(layer, groups=[None]).item()
    clip_gradients(layer, 0.1, groups=[None])
    return norm / due, local / due, norm_of_gradients(layer, groups=[None]).item()


def test_the_norm_has_the_experts_of_all_ranks():
    found = shardlab.run(norms, ranks=4, timeout=60)
    for ours, planted, clipped in found:
        assert ours == pytest.approx(1, abs=1e-5) and planted < 0.98
        assert clipped == pytest.approx(0.1, rel=1e-4)
    assert len({round(planted, 6) for _, planted, _ in found}) > 1  # every rank would clip by a different factor


# ---- NVIDIA-NeMo/Automodel#1408, #1412: the result of the autograd node is dropped, so the loss never flows ---------


def test_the_auxiliary_loss_flows():
    x = torch.randn(40, HIDDEN, generator=torch.Generator().manual_seed(0))
    layer, plain, added = built(BALANCED), built(PLAIN), built(PLAIN)
    layer(x).sum().backward()
    plain(x).sum().backward()  # what remains if the node's result is dropped
    (added(x).sum() + 0.5 * auxiliary_loss(added.router(x)[0])).backward()
    torch.testing.assert_close(layer.router.weight.grad, added.router.weight.grad)
    assert torch.dist(layer.router.weight.grad, plain.router.weight.grad) > 1e-3


# ---- pytorch/torchtitan#1593: under recomputation each forward counts its tokens again -----------------------------


class CountsUp(MoE):
    """Accumulates counts, as the reported layer did."""

    def routed(self, x_TH):
        before = self.load_E
        found = super().routed(x_TH)
        self.load_E = before + self.load_E
        return found


def counted():
    x = torch.randn(ROWS, HIDDEN, requires_grad=True)
    loads = []
    for layer in (ParallelMoE(built(PLAIN), Splits(None)), CountsUp(PLAIN)):
        model = nn.Sequential(layer)
        recompute(model, "0")
        model(x).sum().backward()
        loads.append(layer.load_E.sum().item())
    return loads


def test_a_recomputed_layer_counts_once_on_ranks_too():
    assert shardlab.run(counted, ranks=2, timeout=60) == [[2 * ROWS, 4 * ROWS]] * 2


# ---- NVIDIA/Megatron-LM#5047, #5798: an auxiliary loss whose size depends on the mesh -------------------------------


class OwnLoad(ParallelMoE):
    """A loss of only this rank's counts."""

    def load_of_batch(self, load_E):
        return load_E, 1.0


def router_gradients():
    whole, xs = built(BALANCED), batches(dist.get_world_size())
    whole(torch.cat(xs)).square().sum(-1).mean().backward()
    apart = []
    for kind in (ParallelMoE, OwnLoad):
        layer = kind(built(BALANCED), Splits(None))
        layer(xs[dist.get_rank()]).square().sum(-1).mean().backward()
        average_gradients(layer, group=None, expert_group=alone())
        apart.append((layer.router.weight.grad - whole.router.weight.grad).abs().max().item())
    return apart


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_auxiliary_loss_is_the_same_on_every_mesh(ranks):
    for ours, planted in shardlab.run(router_gradients, ranks=ranks, timeout=60):
        assert ours < 1e-5 and planted > 1e-4
