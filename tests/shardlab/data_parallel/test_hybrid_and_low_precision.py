"""Slices within a node and replicas across nodes, and weights gathered in bf16 with precise masters."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import traffic
from shardlab.costs.memory.states import zero_state_bytes
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from torch import nn

from tests.shardlab.data_parallel import twin

ENGINES = {"zero1": Zero1, "zero2": Zero2, "zero3": Zero3}


def two_by_two():
    """This rank's node, and the ranks of the other node that hold the same slice."""
    nodes = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    across = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])]
    return nodes[dist.get_rank() // 2], across[dist.get_rank() % 2]


def train_hybrid(stage):
    rank, size = dist.get_rank(), dist.get_world_size()
    node, across = two_by_two()
    model = twin.new_model()
    for parameter in model.parameters():
        parameter.data += rank  # rank 0's weights are used
    units = {"units": list(model.blocks)} if stage == "zero3" else {}
    zero = ENGINES[stage](model, torch.optim.AdamW, group=node, replicas=across, lr=0.05, weight_decay=0.1, **units)
    for step in range(twin.STEPS):
        zero.zero_grad()
        twin.loss_of(model, *(twin.own_part(t, rank, size) for t in twin.batch(step, size))).backward()
        zero.step(max_norm=0.5)
    return zero.full_parameters() if stage == "zero3" else {n: p.detach() for n, p in model.named_parameters()}


@pytest.mark.parametrize("stage", ENGINES)
def test_two_nodes_of_two_ranks_are_one_process(stage):
    alone, _ = twin.trained_alone(4, max_norm=0.5, lr=0.05, weight_decay=0.1)
    for weights in shardlab.run(train_hybrid, stage, ranks=4, timeout=60):
        assert twin.largest_difference(weights, alone) < 1e-12


def hybrid_bytes():
    node, across = two_by_two()
    model = nn.Sequential(nn.Linear(31, 32))  # 1024 parameters
    zero = Zero3(model, torch.optim.SGD, units=list(model), group=node, replicas=across, lr=0.1)
    with meter.record() as bill:
        model(torch.ones(1, 31)).sum().backward()
        zero.step()
    crossing = [event.sent_bytes for event in bill.events if event.kind == "all_reduce"]
    return sum(crossing), bill.sent_bytes - sum(crossing)


def test_only_slices_of_gradients_cross_nodes():
    for crossing, within in shardlab.run(hybrid_bytes, ranks=4):
        assert crossing == traffic.ring_all_reduce_bytes(2, 4 * 1024 / 2)
        assert within == traffic.zero_bytes(2, 4 * 1024, 3)


def low_precision():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(31, 32))
    bias = model[0].bias.detach().clone()  # the vector starts with the last parameter
    zero = Zero3(
        model, torch.optim.AdamW, units=list(model), compute_dtype=torch.bfloat16, gradient_dtype=torch.float32, lr=1e-6
    )
    master = zero.vectors[0].master.detach().clone()
    for _ in range(2):
        zero.zero_grad()
        with meter.record() as bill:
            model(torch.ones(1, 31, dtype=torch.bfloat16)).sum().backward()
            gradients = zero.held().gradients
            zero.step()
    held = zero.held()
    moved = (zero.vectors[0].master.detach() - master).abs().max().item()
    return (
        torch.equal(bias[:16], master[:16]),
        moved,
        bill.sent_bytes,
        (held.parameters, gradients, held.optimizer_state),
    )


def test_masters_keep_the_precision_that_the_passes_give_up():
    (is_precise, *_), _ = by_rank = shardlab.run(low_precision, ranks=2)
    assert is_precise
    for _, moved, sent, held in by_rank:
        assert moved == pytest.approx(2e-6, rel=0.1)  # a step too small for bf16 to add to a weight
        assert sent == traffic.zero_bytes(2, 2 * 1024, 3)
        due = zero_state_bytes(1024, 2, 3, gradient_bytes=4)
        assert held == (due.parameters, due.gradients, due.optimizer + 4)
