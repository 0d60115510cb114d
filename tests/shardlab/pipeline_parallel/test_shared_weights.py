"""Weights on several ranks: tied embeddings, DualPipe's copies, and replicas under torch's DDP."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from models import WIDTH, layer, loss, microbatches, one_process
from shardlab import meter
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.execution import execute
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from shardlab.pipeline_parallel.shared_weights import add_gradients
from shardlab.pipeline_parallel.stages import ModuleStage
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Embedding(nn.Module):
    """x E, or with `back` x E^T: the same weight at both ends of a model."""

    def __init__(self, weight, back=False):
        super().__init__()
        self.weight, self.back = weight, back

    def forward(self, x):
        return torch.tanh(x @ (self.weight.T if self.back else self.weight))


def modules_of(stages, last):
    """The modules of these stages. The first and the last share one weight, the same object if both are here."""
    torch.manual_seed(3)
    weight = nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.float64))
    ends = {0: Embedding(weight), last: Embedding(weight, back=True)}
    return {stage: ends[stage] if stage in ends else layer(stage) for stage in stages}


def stage_of(number, module, batches, last):
    return ModuleStage(
        module,
        inputs=batches if number == 0 else None,
        input_like=None if number == 0 else batches[0],
        loss=loss if number == last else None,
        loss_weight=1 / len(batches),
    )


def train_tied(name):
    """The embedding's gradient on this rank, or None if the rank does not hold it."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    schedule, batches = BUILDERS[name](ranks, 2 * ranks), microbatches(2 * ranks)
    last = num_stages(schedule) - 1
    modules = modules_of(stages_of_rank(schedule, rank), last)
    execute(schedule, {n: stage_of(n, m, batches, last) for n, m in modules.items()}, group=dist.group.WORLD)
    ends = [module for number, module in modules.items() if number in (0, last)]
    if not ends:
        return None
    homes = {home for home in range(ranks) if {0, last} & set(stages_of_rank(schedule, home))}
    if len(ends) == 1:  # the other end is on another rank
        (peer,) = homes - {rank}
        add_gradients([ends[0].weight], peer, group=dist.group.WORLD)
    return ends[0].weight.grad


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zbv", "dualpipe"])
def test_a_tied_embedding_gets_the_gradients_of_both_ends_once(name):
    ranks = 4
    schedule, batches = BUILDERS[name](ranks, 2 * ranks), microbatches(2 * ranks)
    last = num_stages(schedule) - 1
    modules = modules_of(range(last + 1), last)
    for number, batch in enumerate(batches):
        (loss(nn.Sequential(*modules.values())(batch), number) / len(batches)).backward()
    found = [gradient for gradient in shardlab.run(train_tied, name, ranks=ranks) if gradient is not None]
    assert len(found) == (1 if name == "zbv" else 2)
    for gradient in found:
        torch.testing.assert_close(gradient, modules[0].weight.grad, rtol=1e-11, atol=1e-12)
        assert torch.equal(gradient, found[0])


def two_steps_under_ddp(name):
    """Ranks 0, 1 and 2, 3 are pipelines; stage r of both is one DDP module. Returns gradients and all-reduces."""
    rank, count = dist.get_rank(), 4
    pipeline = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    replicas = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    schedule = BUILDERS[name](2, count)
    last, batches = num_stages(schedule) - 1, [(-1) ** (rank // 2) * batch for batch in microbatches(count)]
    # with find_unused_parameters, DDP also reduces integers that say which parameters were used
    options = {"process_group": replicas, "find_unused_parameters": name == "zb-h1"}
    stages = {
        number: stage_of(number, DistributedDataParallel(layer(number), **options), batches, last)
        for number in stages_of_rank(schedule, rank % 2)
    }
    found = []
    for _ in range(2):
        for stage in stages.values():
            stage.module.zero_grad()
        with meter.record() as bill:
            execute(schedule, stages, group=pipeline)
        reduced = [event for event in bill.events if event.kind == "all_reduce" and event.dtype == "float64"]
        gradients = {n: [p.grad.clone() for p in stage.parameters()] for n, stage in stages.items()}
        found.append((gradients, sum(event.payload_bytes for event in reduced), len(reduced)))
    return found


@pytest.mark.slow  # the ranks import what DDP needs
@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zbv"])
def test_ddp_averages_over_replicas_once_a_step(name):
    by_rank = shardlab.run(two_steps_under_ddp, name, ranks=4, timeout=90)
    stages = num_stages(BUILDERS[name](2, 4))
    plain, _ = one_process(stages, 4)
    mirrored, _ = one_process(stages, 4, sign=-1)
    for steps in by_rank:
        for gradients, payload, calls in steps:
            assert calls == len(gradients)  # small stages: one bucket each
            assert payload == sum(gradient.nbytes for of_stage in gradients.values() for gradient in of_stage)
            for number, of_stage in gradients.items():
                for mine, one, other in zip(of_stage, plain[number][0], mirrored[number][0], strict=True):
                    torch.testing.assert_close(mine, (one + other) / 2, rtol=1e-11, atol=1e-12)
