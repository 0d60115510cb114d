"""Backwards in halves, and shared weights."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from models import WIDTH, Scaled, Twice, layer, loss, microbatches, one_process
from shardlab import meter
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.execution import execute
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from shardlab.pipeline_parallel.shared_weights import add_gradients
from shardlab.pipeline_parallel.split_backward import backward_input
from shardlab.pipeline_parallel.stages import ModuleStage
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

# ---- I then W equals one backward for the parts of real models. Nothing is computed or counted twice. ----------------

WIDTH_SPLIT_BACKWARD = 6


class Attention(nn.Module):
    """Three projections of one input, joined again, with a residual path."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH_SPLIT_BACKWARD, 2, batch_first=True)

    def forward(self, x):
        return x + self.attention(x, x, x, need_weights=False)[0]


class Shared(nn.Module):
    """One weight in two parallel branches, one of which bypasses the input's path."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD))

    def forward(self, x):
        return torch.tanh(x @ self.weight) * self.weight.sum(0)


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD),
            nn.Tanh(),
            nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD),
        )

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


def frozen():
    module = nn.Sequential(
        nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD), nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD)
    )
    module[0].requires_grad_(False)
    return module


MODULES = {
    "linear": lambda: nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD),
    "no bias": lambda: nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD, bias=False),
    "attention": Attention,
    "shared weight": Shared,
    "tied layer": Twice,
    "custom function": Scaled,
    "weight norm": lambda: weight_norm(nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD)),
    "recomputed": Recomputed,
    "frozen": frozen,
    "no weights": nn.Tanh,
    "deep": lambda: nn.Sequential(*[nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD) for _ in range(400)]),
}


def gradients(module, x, run):
    module.zero_grad()
    source = x.clone().requires_grad_()
    run(module(source), source)
    return [source.grad, *[p.grad for p in module.parameters() if p.requires_grad]]


def split(output, source):
    weights = backward_input(output, torch.ones_like(output), source)
    weights()


@pytest.mark.parametrize("name", MODULES)
def test_two_halves_are_the_whole(name):
    torch.manual_seed(0)
    module, x = MODULES[name]().double(), torch.randn(2, 3, WIDTH_SPLIT_BACKWARD, dtype=torch.float64)
    if name == "custom function":
        x = x[0]
    whole = gradients(module, x, lambda output, source: output.backward(torch.ones_like(output)))
    fired = []
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.register_hook(lambda gradient: 2 * gradient)
            parameter.register_post_accumulate_grad_hook(fired.append)
    halves = gradients(module, x, split)
    for got, expected in zip(halves, [whole[0], *[2 * gradient for gradient in whole[1:]]], strict=True):
        torch.testing.assert_close(got, expected)
    assert len(fired) == len(whole) - 1


def test_the_first_half_leaves_the_weights_alone_and_the_second_the_input():
    module, x = (
        nn.Sequential(
            nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD),
            nn.Tanh(),
            nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD),
        ),
        torch.randn(3, WIDTH_SPLIT_BACKWARD),
    )
    source = x.requires_grad_()
    output = module(source)
    weights = backward_input(output, torch.ones_like(output), source)
    assert all(parameter.grad is None for parameter in module.parameters())
    kept = source.grad.clone()
    weights()
    assert torch.equal(source.grad, kept)
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_a_loss_needs_no_gradient_from_outside():
    module, x = nn.Linear(WIDTH_SPLIT_BACKWARD, WIDTH_SPLIT_BACKWARD), torch.randn(3, WIDTH_SPLIT_BACKWARD)
    whole = gradients(module, x, lambda output, _: output.square().mean().backward())
    halves = gradients(module, x, lambda output, source: backward_input(output.square().mean(), None, source)())
    for got, expected in zip(halves, whole, strict=True):
        assert torch.equal(got, expected)


# ---- Weights on several ranks: tied embeddings, DualPipe's copies, and replicas under torch's DDP. -------------------


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
