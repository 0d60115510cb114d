"""Recomputation: bitwise equal gradients, each forward run once more, one microbatch of activations held."""

import weakref

import pytest
import shardlab
import torch
import torch.distributed as dist
from models import WIDTH, loss, microbatches
from shardlab.pipeline_parallel.builders import BUILDERS, gpipe
from shardlab.pipeline_parallel.execution import execute
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from shardlab.pipeline_parallel.stages import ModuleStage
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

MICROBATCHES = 4


class Counted(nn.Module):
    """A stage with dropout that counts its forwards."""

    def __init__(self, stage):
        super().__init__()
        torch.manual_seed(stage)
        parts = nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dropout(0.5), nn.Linear(4 * WIDTH, WIDTH)
        self.layers = nn.Sequential(*parts).double()
        self.runs = 0

    def forward(self, x):
        self.runs += 1
        return self.layers(x)


class SavedBytes:
    """Bytes that autograd keeps for backward passes: the current number and the peak."""

    def __init__(self):
        self.now = self.peak = 0

    def pack(self, tensor):
        box = Box(tensor)
        self.now += tensor.nbytes
        self.peak = max(self.peak, self.now)
        weakref.finalize(box, self.free, tensor.nbytes)
        return box

    def free(self, num_bytes):
        self.now -= num_bytes


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


def train(schedule, recompute):
    """Gradients, forwards of each stage, and the peak bytes that autograd kept on this rank."""
    batches, last = microbatches(MICROBATCHES), num_stages(schedule) - 1
    stages = {
        stage: ModuleStage(
            Counted(stage),
            inputs=batches if stage == 0 else None,
            input_like=None if stage == 0 else batches[0],
            loss=loss if stage == last else None,
            loss_weight=1 / MICROBATCHES,
            recompute=recompute,
        )
        for stage in stages_of_rank(schedule, dist.get_rank())
    }
    torch.manual_seed(dist.get_rank())
    saved = SavedBytes()
    with saved_tensors_hooks(saved.pack, lambda box: box.tensor):
        execute(schedule, stages, group=dist.group.WORLD)
    assert saved.now == 0
    gradients = [parameter.grad for stage in stages.values() for parameter in stage.parameters()]
    losses = [float(value) for stage in stages.values() for value in stage.losses.values()]
    return gradients, losses, [stage.module.runs for stage in stages.values()], saved.peak


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zb-h1", "zbv", "dualpipe"])
def test_recomputing_changes_no_bit_and_runs_each_forward_twice_at_most(name):
    schedule = BUILDERS[name](2, MICROBATCHES)
    kept, again = (shardlab.run(train, schedule, recompute, ranks=2) for recompute in (False, True))
    for (gradients, losses, runs, _), (same, same_losses, twice, _) in zip(kept, again, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(gradients, same, strict=True))
        assert losses == same_losses
        assert twice == [2 * count for count in runs]  # also if I and W are separate


def test_gpipe_then_keeps_the_activations_of_one_microbatch_instead_of_all():
    kept, again = (shardlab.run(train, gpipe(2, MICROBATCHES), recompute, ranks=2) for recompute in (False, True))
    for (*_, all_of_them), (*_, one) in zip(kept, again, strict=True):
        assert all_of_them == MICROBATCHES * one > 0
