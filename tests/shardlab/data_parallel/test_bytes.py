"""Bytes held and sent match the formulas exactly, including padding."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs import traffic
from shardlab.costs.memory.states import shard_elements, zero_state_bytes
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from torch import nn

PARAMETERS = 1857
STEP_COUNT = 4  # Adam keeps one number per vector
ENGINES = {1: Zero1, 2: Zero2, 3: Zero3}


class Scaled(nn.Module):
    """57 x 32 + 32 + 1 = 1857 parameters in one unit."""

    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(57, 32), nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.linear(x) * self.scale


def step_of(stage, dtype):
    model = nn.Sequential(Scaled()).to(dtype)
    units = {"units": [model[0]]} if stage == 3 else {}
    zero = ENGINES[stage](model, torch.optim.AdamW, master_dtype=torch.float32, **units)
    for _ in range(2):
        zero.zero_grad()
        with meter.record() as bill:
            model(torch.ones(2, 57, dtype=dtype)).sum().backward()
            held_before = zero.held()
            zero.step()
    held = zero.held()
    return held.parameters, held_before.gradients, held.optimizer_state, bill.sent_bytes, bill.kinds


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_states_are_those_of_the_paper_and_the_padding(stage, ranks):
    shard, padding = shard_elements(PARAMETERS, ranks)
    assert (shard, padding) == {2: (929, 1), 4: (465, 3)}[ranks]
    due = zero_state_bytes(PARAMETERS + padding, ranks, stage)
    unpadded = 2 * padding if stage == 1 else 0  # ZeRO-1 keeps the gradients where autograd puts them
    for parameters, gradients, optimizer, _, _ in shardlab.run(step_of, stage, torch.bfloat16, ranks=ranks):
        assert parameters == due.parameters
        assert gradients == due.gradients - unpadded
        assert optimizer == due.optimizer + STEP_COUNT


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_traffic_is_two_or_three_times_the_model(stage, ranks):
    _, padding = shard_elements(PARAMETERS, ranks)
    due = traffic.zero_bytes(ranks, 4 * (PARAMETERS + padding), stage)
    for *_, sent, _ in shardlab.run(step_of, stage, torch.float32, ranks=ranks):
        assert sent == due


def ddp_step(bucket_bytes):
    model = DataParallel(
        nn.Sequential(nn.Linear(30, 40), nn.Linear(40, 10)), bucket_bytes=bucket_bytes, first_bucket_bytes=bucket_bytes
    )
    with meter.record() as bill:
        model(torch.ones(2, 30)).sum().backward()
    return bill.sent_bytes, len(bill.events)


def test_smaller_buckets_make_more_calls_and_as_many_bytes():
    parameters = 30 * 40 + 40 + 40 * 10 + 10
    calls = []
    for bucket_bytes in (1, 2000, 1 << 20):
        sent, number = zip(*shardlab.run(ddp_step, bucket_bytes, ranks=3), strict=True)
        assert set(sent) == {traffic.zero_bytes(3, 4 * parameters, 0)}
        calls.append(number)
    assert calls == [(4, 4, 4), (2, 2, 2), (1, 1, 1)]


def most_gathered(prefetch):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))
    zero = Zero3(model, torch.optim.SGD, units=list(model), prefetch=prefetch, lr=0.1)
    held = []

    def look(*_):
        held.append(sum(vector.full.untyped_storage().nbytes() for vector in zero.vectors))

    for _ in range(3):
        for layer in model:
            layer.register_forward_pre_hook(look)
        out = model(torch.ones(2, 16, requires_grad=True))
        look()
        out.register_hook(look)
        for parameter in model.parameters():
            parameter.register_hook(look)
        out.sum().backward()
        look()
        zero.step()
        zero.zero_grad()
    unit = 4 * zero.vectors[0].full.numel()
    return max(held) / unit, held[-1]


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_only_the_unit_at_work_and_those_ahead_are_whole(prefetch):
    for most, at_the_end in shardlab.run(most_gathered, prefetch, ranks=2):
        assert most == 1 + prefetch
        assert at_the_end == 0


def kept_whole():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    zero = Zero3(model, torch.optim.SGD, units=list(model), reshard_after_forward=False, lr=0.1)
    with meter.record() as bill:
        model(torch.ones(2, 8)).sum().backward()
        zero.step()
    return bill.sent_bytes, dist.get_world_size()


def test_weights_kept_for_the_backward_cost_memory_and_save_a_gather():
    for sent, size in shardlab.run(kept_whole, ranks=2):
        assert sent == traffic.zero_bytes(size, 4 * 2 * 72, 2)
