"""Cut layers on real ranks against whole ones on the same rank: outputs, gradients, bytes, and what cannot be cut."""

from copy import deepcopy

import pytest
import shardlab
import torch
from shardlab import meter
from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.model.gpt import Block, GPTConfig
from shardlab.tensor_parallel.blocks import ParallelBlock, ParallelMLP
from shardlab.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear, split_parameters
from shardlab.tensor_parallel.operators import sum_of_all, to_all
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

CONFIG = GPTConfig(layers=1, hidden=24, heads=12, sequence=5)
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def whole_block():
    torch.manual_seed(3)
    block = Block(CONFIG).double()
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.3)  # biases too: a bias that is added twice must show
    return block


def inputs():
    generator = torch.Generator().manual_seed(5)
    return torch.randn(2, 5, 24, dtype=torch.float64, generator=generator)


def against_the_whole_block():
    whole, x_BSH = whole_block(), inputs().requires_grad_()
    due = whole(x_BSH)
    due.square().mean().backward()
    due_input, x_BSH = x_BSH.grad, inputs().requires_grad_()

    part = ParallelBlock(whole_block(), group=None)
    with meter.record() as bill:
        got = part(x_BSH)
    forward = (bill.count("all_reduce"), bill.sent_bytes)
    with meter.record() as bill:
        got.square().mean().backward()
    torch.testing.assert_close(got, due, **CLOSE)
    torch.testing.assert_close(x_BSH.grad, due_input, **CLOSE)

    gradients = whole_block()
    for parameter, other in zip(gradients.parameters(), whole.parameters(), strict=True):
        parameter.data.copy_(other.grad)
    cut = ParallelBlock(gradients, group=None)  # the whole one's gradients, cut as the weights are
    for (name, mine), (_, theirs) in zip(part.named_parameters(), cut.named_parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.detach(), **CLOSE, msg=lambda text, name=name: f"{name}: {text}")
    elements = sum(parameter.numel() for parameter in split_parameters(part))
    return forward, (bill.count("all_reduce"), bill.sent_bytes), elements


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_cut_block_is_the_whole_one_with_two_all_reduces_each_way(ranks):
    payload = inputs().nbytes
    split = 12 * 24 * 24 + 7 * 24  # matrices of a block, and the biases of its column layers
    for forward, backward, elements in shardlab.run(against_the_whole_block, ranks=ranks, timeout=60):
        calls = 0 if ranks == 1 else 2
        assert forward == backward == (calls, calls * ring_all_reduce_bytes(ranks, payload))
        assert elements == split // ranks


def against_torchs_own():
    torch.manual_seed(1)
    whole = nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 24)).double()
    ours = ParallelMLP(whole[0], whole[2], group=None)
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    theirs = parallelize_module(deepcopy(whole), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    inputs_of = [inputs().requires_grad_() for _ in range(2)]
    outputs = [module(x) for module, x in zip((ours, theirs), inputs_of, strict=True)]
    for output in outputs:
        output.square().sum().backward()
    torch.testing.assert_close(*outputs, **CLOSE)
    torch.testing.assert_close(inputs_of[0].grad, inputs_of[1].grad, **CLOSE)
    mine = [ours.up.weight, ours.up.bias, ours.down.weight, ours.down.bias]
    for one, other in zip(mine, theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad.to_local(), **CLOSE)
    return len(mine)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_cut_mlp_is_that_of_torchs_parallelize_module(ranks):
    assert shardlab.run(against_torchs_own, ranks=ranks, timeout=60) == [4] * ranks


def adjoint():
    """<f(x), y> summed over ranks is <x, f*(y)>: the backward of each operator is the forward of the other."""
    generator = torch.Generator().manual_seed(torch.distributed.get_rank())
    x = torch.randn(7, dtype=torch.float64, generator=generator, requires_grad=True)
    y = torch.randn(7, dtype=torch.float64, generator=generator)
    results = []
    for forward, backward in ((to_all, sum_of_all), (sum_of_all, to_all)):
        (gradient,) = torch.autograd.grad(forward(x, group=None), x, y)
        results.append(torch.equal(gradient, backward(y, group=None)))
    return results


def test_each_operator_is_the_adjoint_of_the_other():
    assert shardlab.run(adjoint, ranks=3, timeout=30) == [[True, True]] * 3


def refusals():
    told = []
    for make in (
        lambda: ColumnParallelLinear(nn.Linear(4, 10), group=None),
        lambda: RowParallelLinear(nn.Linear(10, 4), group=None),
        lambda: ParallelBlock(Block(GPTConfig(hidden=24, heads=4)), group=None),
    ):
        with pytest.raises(ValueError, match="use a tensor-parallel size among") as caught:
            make()
        told.append(str(caught.value))
    return told


def test_what_the_ranks_do_not_divide_is_refused_with_the_sizes_that_work():
    column, row, heads = shardlab.run(refusals, ranks=3, timeout=30)[0]
    assert column == row == "10 cannot be split over 3 ranks: use a tensor-parallel size among [1, 2, 5, 10]"
    assert heads.startswith("4 heads cannot be split over 3 ranks") and heads.endswith("[1, 2, 4]")


def keeps_the_whole_alive():
    part = RowParallelLinear(nn.Linear(64, 64), group=None)
    return part.weight.untyped_storage().nbytes() // part.weight.element_size()


def test_a_part_is_no_view_of_the_whole():
    assert shardlab.run(keeps_the_whole_alive, ranks=2, timeout=30) == [64 * 32] * 2
