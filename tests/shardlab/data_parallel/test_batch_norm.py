"""Under every ZeRO stage, BatchNorm's running means are those of the first rank, as with DDP."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS = 2, 3


def normalised():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)).double()


def batch(step):
    generator = torch.Generator().manual_seed(10 * step + dist.get_rank())
    return torch.randn(6, 4, generator=generator, dtype=torch.float64) + dist.get_rank()


def buffers_under(kind, same):
    """Buffers after some steps and the start of another forward, as an evaluation would find them."""
    model = normalised()
    if kind is DistributedDataParallel:
        passes, steps = DistributedDataParallel(model), None
        steps = torch.optim.SGD(model.parameters(), lr=0.1)
    else:
        units = {"units": [model[0], model[1], model[2]]} if kind is Zero3 else {}
        passes, steps = model, kind(model, torch.optim.SGD, lr=0.1, same_buffers=same, **units)
    for step in range(STEPS):
        passes(batch(step)).square().mean().backward()
        steps.step()
        steps.zero_grad()
    return {name: buffer.clone() for name, buffer in model.named_buffers()}


@pytest.mark.parametrize("kind", [Zero1, Zero2, Zero3])
def test_means_are_ddps(kind):
    due = shardlab.run(buffers_under, DistributedDataParallel, True, ranks=RANKS, timeout=60)
    ours = shardlab.run(buffers_under, kind, True, ranks=RANKS, timeout=60)
    for mine, theirs in zip(ours, due, strict=True):
        for name, buffer in theirs.items():
            torch.testing.assert_close(mine[name], buffer, rtol=0, atol=1e-12)


def test_without_it_each_rank_has_means_of_its_own():
    first, second = shardlab.run(buffers_under, Zero1, False, ranks=RANKS, timeout=60)
    assert (first["1.running_mean"] - second["1.running_mean"]).abs().max() > 0.1
