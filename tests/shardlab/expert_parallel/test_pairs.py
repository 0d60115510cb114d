"""DualPipe's pairs with real experts: one half's rows are sent while the other's experts compute, on CPU ranks too.

Four ranks: two DualPipeV pipelines of two ranks, with each stage's experts on two ranks. The link and experts sleep.
"""

import time

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.expert_parallel import ParallelMoE, SlowLink, Splits, Travel, Turns
from shardlab.model.experts import by_loop
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.router import Choice
from shardlab.pipeline_parallel.builders import dualpipe_v
from shardlab.pipeline_parallel.execution import Executor, execute
from shardlab.pipeline_parallel.schedule import Overlap, num_stages, stages_of_rank
from shardlab.pipeline_parallel.stages import ModuleStage
from torch import nn

PIPELINES, EXPERT_RANKS, HIDDEN, ROWS, MICROBATCHES = [[0, 1], [2, 3]], [[0, 2], [1, 3]], 8, 6, 6
ASLEEP = 0.02
SPANS = []


def asleep():
    began = time.monotonic()
    time.sleep(ASLEEP)
    SPANS.append((began, time.monotonic()))


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        asleep()
        return y.view_as(y)

    @staticmethod
    def backward(ctx, *gradients):
        asleep()
        return gradients[0]


def slowly(x, *others):
    return Slow.apply(by_loop(x, *others))


class Layer(nn.Module):
    """A matrix followed by experts."""

    def __init__(self, seed, method=by_loop):
        super().__init__()
        torch.manual_seed(seed)
        self.matrix, self.moe = nn.Linear(HIDDEN, HIDDEN), MoE(MoEConfig(HIDDEN, 8, Choice(4, 2), method=method))
        for one in self.parameters():
            nn.init.normal_(one, std=0.4)

    def forward(self, x):
        return x + self.moe(self.matrix(x))


def batches_of(pipeline):
    generator = torch.Generator().manual_seed(pipeline)
    return list(torch.randn(MICROBATCHES, ROWS, HIDDEN, generator=generator))


def loss_of(output, _):
    return output.square().mean()


def one_process(stages):
    layers = [Layer(seed, by_loop) for seed in range(stages)]
    model = nn.Sequential(*layers)
    for x in batches_of(0) + batches_of(1):
        loss_of(model(x), 0).backward()
    return layers


def train(by_turns):
    """Which of each pair's four exchanges overlapped with experts, and the gradients' difference from one process."""
    torch.set_num_threads(1)
    rank = dist.get_rank()
    pipelines, experts = ([dist.new_group(ranks) for ranks in groups] for groups in (PIPELINES, EXPERT_RANKS))
    schedule, turns = dualpipe_v(2, MICROBATCHES), Turns()
    last = num_stages(schedule) - 1
    link = SlowLink(ranks_per_node=1, bytes_per_second=HIDDEN * 4 * ROWS / (ASLEEP / 4))
    travel = Travel(link, turns if by_turns else None)
    layers, batches = {}, batches_of(rank // 2)
    for stage in stages_of_rank(schedule, rank % 2):
        layers[stage] = Layer(stage, slowly)
        layers[stage].moe = ParallelMoE(layers[stage].moe, Splits(experts[rank % 2], travel=travel))
    stages = {
        stage: ModuleStage(
            layer,
            inputs=batches if stage == 0 else None,
            input_like=None if stage == 0 else batches[0],
            loss=loss_of if stage == last else None,
        )
        for stage, layer in layers.items()
    }
    with meter.record() as bill:
        times = execute(
            schedule, stages, group=pipelines[rank // 2], executor=Executor(pair=turns.together if by_turns else None)
        )

    exchanges = [event for event in bill.events if event.kind == "all_to_all" and event.dtype != "int64"]
    found = []
    for slot, begin, end in zip(schedule[rank % 2], times.begins, times.ends, strict=True):
        if isinstance(slot, Overlap):
            here = [one for one in exchanges if begin <= one.begin <= end]
            spans = [span for span in SPANS if begin <= span[0] <= end]
            found.append([any(one.begin <= began and one.waits >= ended for began, ended in spans) for one in here])
    return found, apart(layers, one_process(last + 1), experts[rank % 2])


def apart(layers, twins, group):
    worst = 0.0
    for stage, layer in layers.items():
        whole = dict(twins[stage].named_parameters())
        for name, one in layer.named_parameters():
            gradient, due = one.grad.clone(), whole[name].grad
            if "experts" in name:  # already includes the tokens of both pipelines
                due = due.chunk(2)[dist.get_rank(group)]
            else:
                dist.all_reduce(gradient, group=group)
            worst = max(worst, (gradient - due).abs().max().item())
    return worst


@pytest.mark.slow  # four ranks, many sleeps
@pytest.mark.parametrize(
    ("by_turns", "behind"),
    [(False, [False] * 4), (True, [False, True, True, False])],  # dispatch, combine's backward, combine, ...
    ids=["F, then B", "by turns"],
)
def test_exchanges_of_one_half_run_behind_the_experts_of_the_other(by_turns, behind):
    schedule = dualpipe_v(2, MICROBATCHES)
    for rank, (found, distance) in enumerate(shardlab.run(train, by_turns, ranks=4, timeout=100)):
        num_pairs = sum(isinstance(slot, Overlap) for slot in schedule[rank % 2])
        assert num_pairs > 0
        assert found == [behind] * num_pairs
        assert distance < 1e-5


# ---- turns alone ----------------------------------------------------------------------------------------------------


def test_the_two_change_at_waits_alone_and_each_ends():
    turns, seen = Turns(), []

    def work(name, waits):
        def piece():
            for number in range(waits + 1):
                seen.append(f"{name}{number}")
                if number < waits:
                    turns.give()

        return piece

    turns.together(work("F", 2), work("B", 4))
    assert seen == ["F0", "B0", "F1", "B1", "F2", "B2", "B3", "B4"]
    turns.give()  # no pair is running: returns at once


@pytest.mark.parametrize("place", [0, 1])
def test_trouble_of_one_half_is_raised_when_the_other_has_ended(place):
    turns, done = Turns(), []

    def wrong():
        turns.give()
        raise ValueError("no such expert")

    def right():
        turns.give()
        turns.give()
        done.append(True)

    halves = [right, right]
    halves[place] = wrong
    with pytest.raises(ValueError, match="no such expert"):
        turns.together(*halves)
    assert done == [True]
