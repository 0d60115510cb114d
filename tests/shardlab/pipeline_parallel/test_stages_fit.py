"""Stages that do not fit together raise a sentence that names the stage. Frozen stages have nothing to do."""

from typing import Any

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.pipeline_parallel.builders import BUILDERS, one_f_one_b, zb_h1
from shardlab.pipeline_parallel.execution import execute
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from shardlab.pipeline_parallel.stages import ModuleStage
from torch import nn


class Does(nn.Module):
    """A function of a layer and its input."""

    def __init__(self, function):
        super().__init__()
        self.function, self.layer = function, nn.Linear(3, 3)

    def forward(self, x):
        return self.function(self.layer, x)


def train(builder, functions, changes, count=3):
    """Run one step of stages that are each a function of a layer. changes: other arguments of a stage."""
    rank, schedule = dist.get_rank(), builder(len(functions), count)
    x = torch.ones(4, 3)
    options: dict[str, Any] = {"inputs": [x] * count} if rank == 0 else {"input_like": x}
    if rank == len(functions) - 1:
        options["loss"] = lambda output, microbatch: output.square().sum()
    stage = ModuleStage(Does(functions[rank]), **(options | changes.get(rank, {})))
    execute(schedule, {rank: stage}, group=None)


def plain(layer, x):
    return layer(x)


def cut(layer, x):
    return layer(x.detach())


def in_place(layer, x):
    return layer(x.mul_(2))


def no_graph(layer, x):
    with torch.no_grad():
        return layer(x)


X = torch.ones(4, 3)
AFTER = lambda output, microbatch: output.square().sum()  # noqa: E731
REFUSED = {
    "other columns": (
        [plain, plain],
        {0: {"inputs": [X, X, X[:, :2]]}},
        r"microbatch 2 of \[4, 2\] float32",
    ),
    "another dtype of one": ([plain, plain], {0: {"inputs": [X, X.double(), X]}}, "only the rows"),
    "too few microbatches": ([plain, plain], {0: {"inputs": [X]}}, "stage 0 has 1 microbatches, but the schedule"),
    "too many microbatches": ([plain, plain], {0: {"inputs": [X] * 4}}, "stage 0 has 4 microbatches, but the schedule"),
    "a receive too small": (
        [plain, plain],
        {1: {"input_like": X[:3]}},
        r"stage 0 computes \[4, 3\] .* \[3, 3\]",
    ),
    "a receive too large": ([plain, plain], {1: {"input_like": X.repeat(2, 1)}}, r"microbatch 0, .* expects \[8, 3\]"),
    "another dtype": ([plain, plain], {1: {"input_like": X.double()}}, r"expects \[4, 3\] float64: give stage 1"),
    "inputs in the middle": ([plain, plain], {1: {"inputs": [X] * 3, "input_like": None}}, "stage 1 is not the first"),
    "no inputs": ([plain, plain], {0: {"inputs": None, "input_like": X}}, "stage 0 is the first: give it inputs="),
    "an early loss": ([plain, plain], {0: {"loss": AFTER}}, "stage 0 has a loss but is not the last"),
    "rows that do not divide": (
        [plain, plain],
        {0: {"inputs": [X, X[:3], X]}, 1: {"input_like": X[:2]}},
        r"microbatches have \[4, 3, 4\] rows, but stage 1 expects 2",
    ),
    "two outputs": ([lambda layer, x: (layer(x), x), plain], {}, "stage 0, microbatch 0: its module returned a tuple"),
    "a loss of many": ([plain, plain], {1: {"loss": lambda o, _: o}}, r"stage 1, microbatch 0: its loss has the shape"),
    "no loss": ([plain, plain], {1: {"loss": None}}, "stage 1, microbatch 0: it is the last and has no loss"),
    "a loss without a graph": ([plain, no_graph], {}, "stage 1, microbatch 0: its loss depends on none of its weights"),
    "a cut": ([plain, cut, plain], {}, "stage 1 returns no gradient .* weights of stage 0 cannot be trained"),
    "no graph in the middle": ([plain, plain, no_graph, plain], {}, "stage 2 returns no gradient .* of stage 1 cannot"),
    "twice in place": ([in_place, plain], {0: {"recompute": True}}, "stage 0, .* changes its input in place"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_stages_that_do_not_fit_are_named(name):
    functions, changes, words = REFUSED[name]
    for builder in (one_f_one_b, zb_h1) if len(functions) > 2 else (one_f_one_b,):
        with pytest.raises(shardlab.RanksFailed, match=words):
            shardlab.run(train, builder, functions, changes, ranks=len(functions))


def frozen_in_front(names, num_frozen):
    """By schedule, whether frozen stages have no gradients and the others match one process."""
    torch.set_num_threads(1)
    right = {}
    for name in names:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        count = 2 * ranks + 2
        schedule = BUILDERS[name](ranks, count)
        torch.manual_seed(0)
        layers = [nn.Linear(3, 3).double() for _ in range(num_stages(schedule))]
        alone = [nn.Linear(3, 3).double() for _ in layers]
        batches = list(torch.randn(count, 2, 3).double())
        for number, (layer, twin) in enumerate(zip(layers, alone, strict=True)):
            twin.load_state_dict(layer.state_dict())
            for one in (layer, twin):
                one.requires_grad_(number >= num_frozen)
        for x in batches:
            nn.Sequential(*alone)(x).square().mean().backward()
        stages = {
            number: ModuleStage(
                layers[number],
                inputs=batches if number == 0 else None,
                input_like=batches[0] if number else None,
                loss=(lambda output, _: output.square().mean()) if number == len(layers) - 1 else None,
            )
            for number in stages_of_rank(schedule, rank)
        }
        execute(schedule, stages, group=None)
        pairs = [
            (mine.grad, due.grad)
            for number in stages
            for mine, due in zip(layers[number].parameters(), alone[number].parameters(), strict=True)
        ]
        equal = [torch.allclose(a, b) if a is not None and b is not None else a is b for a, b in pairs]
        right[name] = all(equal)
    return right


@pytest.mark.parametrize("num_frozen", [1, 3])
def test_frozen_first_stages_have_nothing_to_do_in_any_schedule(num_frozen):
    names = [name for name in BUILDERS if name != "interleaved"]  # it needs a multiple of the ranks
    for right in shardlab.run(frozen_in_front, names, num_frozen, ranks=4, timeout=60):
        assert right == dict.fromkeys(names, True)


def uneven(name):
    """Gradients of this rank's weights for rows 3, 3, 2 in two stages whose buffers fit the first microbatch."""
    rank = dist.get_rank()
    torch.manual_seed(0)
    layers, batches = [nn.Linear(3, 3), nn.Linear(3, 3)], list(torch.randn(8, 3).chunk(3))
    options: dict[str, Any] = {"inputs": batches}
    if rank == 1:
        options = {"input_like": batches[0], "loss": lambda o, _: o.square().sum()}
    execute(BUILDERS[name](2, 3), {rank: ModuleStage(layers[rank], **options)}, group=None)
    return [one.grad for one in layers[rank].parameters()]


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "gpipe"])
def test_microbatches_may_have_different_numbers_of_rows(name):
    torch.manual_seed(0)
    layers, x = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), torch.randn(8, 3)
    layers(x).square().sum().backward()
    found = [gradient for of_rank in shardlab.run(uneven, name, ranks=2) for gradient in of_rank]
    for mine, due in zip(found, [one.grad for one in layers.parameters()], strict=True):
        torch.testing.assert_close(mine, due)
