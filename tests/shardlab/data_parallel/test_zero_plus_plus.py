"""ZeRO++: bytes match the formula, weights and gradients are as close as eight bits allow, hpZ is exact."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs.compression import BLOCK, plus_bytes, quantized_bytes
from shardlab.costs.traffic import zero_bytes
from shardlab.data_parallel.messages import dequantize, quantize
from shardlab.data_parallel.zero import Zero3, ZeroPlusPlus
from torch import nn

from tests.shardlab.data_parallel import twin


@pytest.mark.parametrize("num", [1, 255, 256, 1000])
def test_a_number_is_off_by_half_a_scale_at_most(num):
    values = torch.randn(num, generator=torch.Generator().manual_seed(num)) * torch.logspace(-3, 3, num)
    message = quantize(values)
    assert message.numel() == quantized_bytes(num)
    again = dequantize(message, num)
    for value, read in zip(values.split(BLOCK), again.split(BLOCK), strict=True):
        half_a_scale = value.abs().max() / 127 / 2
        assert ((read - value).abs() <= half_a_scale * 1.0001).all()


def test_zeros_stay_zeros_and_what_no_scale_can_hold_is_nan():
    assert not dequantize(quantize(torch.zeros(300)), 300).any()
    for bad in (float("nan"), float("inf"), -float("inf")):
        values = torch.ones(300)
        values[7] = bad
        read = dequantize(quantize(values), 300)
        assert read[:256].isnan().all() and torch.allclose(read[256:], values[256:])


def step_of(options, ranks_per_node):
    rank = dist.get_rank()
    if ranks_per_node is not None:
        nodes = [dist.new_group([2 * node, 2 * node + 1]) for node in range(2)]
        options = options | {"node": nodes[rank // 2]}
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(31, 32), nn.Linear(32, 40))
    zero = ZeroPlusPlus(model, torch.optim.SGD, units=list(model), lr=0.1, **options)
    sent = []
    for _ in range(3):
        with meter.record() as bill:
            model(torch.ones(1, 31)).sum().backward()
            zero.step()
            zero.zero_grad()
        sent.append(bill.sent_bytes)
    return sent


@pytest.mark.parametrize("ranks_per_node", [None, 2])
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("weights", [False, True])
def test_bytes_are_the_formula_s(weights, gradients, ranks_per_node):
    options = {"quantized_weights": weights, "quantized_gradients": gradients}
    due = sum(plus_bytes(4, size, 4, ranks_per_node=ranks_per_node, **options) for size in (32 * 32, 33 * 40))
    for sent in shardlab.run(step_of, options, ranks_per_node, ranks=4, timeout=60):
        assert sent == [due] * 3
    if not (weights or gradients or ranks_per_node):
        assert due == zero_bytes(4, 4 * (32 * 32 + 33 * 40), 3)


def train(engine, options, hierarchical):
    rank, size = dist.get_rank(), dist.get_world_size()
    nodes = [dist.new_group([2 * node, 2 * node + 1]) for node in range(2)] if hierarchical else []
    options = options | ({"node": nodes[rank // 2]} if hierarchical else {})
    model = twin.new_model()
    zero = engine(model, torch.optim.SGD, units=list(model.blocks), lr=0.1, **options)
    losses = []
    for step in range(twin.STEPS):
        zero.zero_grad()
        loss = twin.loss_of(model, *(twin.own_part(t, rank, size) for t in twin.batch(step, size)))
        loss.backward()
        zero.step()
        losses.append(loss.item())
    return zero.full_parameters(), losses


@pytest.mark.slow
def test_a_secondary_shard_changes_no_bit():
    plain, _ = shardlab.run(train, Zero3, {}, False, ranks=4, timeout=60)[0]
    for weights, _ in shardlab.run(train, ZeroPlusPlus, {}, True, ranks=4, timeout=60):
        assert twin.largest_difference(weights, plain) == 0


@pytest.mark.parametrize("options", [{"quantized_weights": True}, {"quantized_gradients": True}])
@pytest.mark.slow
def test_eight_bits_train_nearly_as_well(options):
    plain, losses = shardlab.run(train, Zero3, {}, False, ranks=2, timeout=60)[0]
    weights, quantized_losses = shardlab.run(train, ZeroPlusPlus, options, False, ranks=2, timeout=60)[0]
    assert 0 < twin.largest_difference(weights, plain) < 0.05
    assert quantized_losses[-1] == pytest.approx(losses[-1], rel=0.02)
