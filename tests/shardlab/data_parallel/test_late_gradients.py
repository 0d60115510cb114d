"""Gradients that arrive late, early or through side outputs: a backward gathers what it needs and frees everything."""

import copy
from dataclasses import dataclass

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

OPTIONS = [{}, {"prefetch": 0}, {"prefetch": 2}, {"reshard_after_forward": False}]


@dataclass
class Both:
    result: Tensor
    other: Tensor


class Block(nn.Module):
    """Returns its result in a container, together with its own input or an inner activation."""

    def __init__(self, other: str, container: type):
        super().__init__()
        self.up, self.down = nn.Linear(3, 4), nn.Linear(4, 3)
        self.other, self.container = other, container

    def forward(self, x):
        y = x * 1.0
        other = x if self.other == "input" else y
        result = self.down(self.up(y).tanh())
        return Both(result, other) if self.container is Both else self.container((result, other))


class Net(nn.Module):
    """Blocks, and parameters of two dtypes outside them."""

    def __init__(self, other: str, container: type, is_used: bool):
        super().__init__()
        self.is_used = is_used
        self.start, self.head = nn.Linear(3, 3), nn.Linear(3, 1)
        self.blocks = nn.ModuleList(Block(other, container) for _ in range(3))
        self.shift, self.scale = nn.Parameter(torch.ones(3)), nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def forward(self, x):
        hidden = x = self.start(x).relu() * self.scale.float()
        for block in self.blocks:
            output = block(x)
            x, other = (output.result, output.other) if isinstance(output, Both) else output
            x = x + other if self.is_used else x
        return self.head(x + self.shift), hidden


def differences(zero: Zero3, model: nn.Module, alone: nn.Module, loss_of) -> float:
    """The largest difference from the weights of one process over some steps."""
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.05)
    for _ in range(3):
        for one, other in ((model, zero), (alone, optimizer)):
            other.zero_grad()
            loss_of(one).backward()
        assert not any(vector.full.untyped_storage().nbytes() for vector in zero.vectors), "gathered after a backward"
        zero.step()
        optimizer.step()
        assert not any(vector.full.untyped_storage().nbytes() for vector in zero.vectors), "gathered after a step"
    weights = zero.full_parameters()
    return max((weights[name] - one).abs().max().item() for name, one in alone.named_parameters())


def outputs(options):
    x, worst = torch.arange(6.0).view(2, 3) / 6, 0.0
    for other in ("input", "inner"):
        for container in (tuple, list, Both):
            for is_used in (True, False):
                torch.manual_seed(0)
                model = Net(other, container, is_used)
                alone = copy.deepcopy(model)
                zero = Zero3(model, torch.optim.SGD, units=[model.start, *model.blocks, model.head], lr=0.05, **options)
                worst = max(worst, differences(zero, model, alone, lambda one: one(x)[0].square().sum()))
    return worst


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_units_and_models_return_their_input_or_what_is_on_the_way(options):
    assert max(shardlab.run(outputs, options, ranks=2, timeout=60)) < 1e-6


class KeepsLoss(nn.Module):
    """A unit that keeps its own loss as an attribute, as experts keep their balance loss."""

    def __init__(self):
        super().__init__()
        self.router, self.down = nn.Linear(3, 3), nn.Linear(3, 3)
        self.aside: Tensor | None = None

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        self.aside = weights.square().sum()
        return self.down(x * weights)


def aside(options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), KeepsLoss(), KeepsLoss())
    alone, x = copy.deepcopy(model), torch.arange(6.0).view(2, 3) / 6
    zero = Zero3(model, torch.optim.SGD, units=list(model), lr=0.05, **options)

    def loss_of(one):
        one(x)
        return one[2].aside  # the output itself is not used, so all other gradients are zero

    return differences(zero, model, alone, loss_of)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_loss_that_is_no_output_finds_the_weights(options):
    assert max(shardlab.run(aside, options, ranks=2, timeout=60)) < 1e-6


def wrapped(name: str, model: nn.Sequential):
    """Something to call, and an optimizer."""
    if name == "ddp":
        return DataParallel(model), torch.optim.SGD(model.parameters(), lr=0.05)
    more = {"units": list(model)[::2]} if name == "zero3" else {}
    return model, {"zero1": Zero1, "zero2": Zero2, "zero3": Zero3}[name](model, torch.optim.SGD, lr=0.05, **more)


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def penalized(name):
    """A loss with the norm of the gradient of the input: torch.autograd.grad must not start a reduce."""
    alone = layers()
    call, optimizer = wrapped(name, layers())
    optimizers = [(alone, torch.optim.SGD(alone.parameters(), lr=0.05)), (call, optimizer)]
    losses = []
    for _ in range(3):
        for model, one in optimizers:
            x = (torch.arange(6.0).view(2, 3).double() / 6).requires_grad_()
            one.zero_grad()
            output = model(x)
            (gradient,) = torch.autograd.grad(output.sum(), x, create_graph=True)
            loss = output.square().sum() + gradient.square().sum()
            loss.backward()
            one.step()
            losses.append(loss.item())
    return max(abs(due - found) for due, found in zip(losses[::2], losses[1::2], strict=True))


@pytest.mark.parametrize("name", ["ddp", "zero1", "zero2", "zero3"])
def test_a_penalty_on_a_gradient(name):
    assert max(shardlab.run(penalized, name, ranks=2, timeout=60)) < 1e-12


def stale(name):
    call, optimizer = wrapped(name, layers())
    early, late = (call(torch.ones(2, 3).double()).square().sum() for _ in range(2))
    early.backward()
    optimizer.step()
    late.backward()


@pytest.mark.parametrize("name", ["ddp", "zero1", "zero2", "zero3"])
def test_a_graph_of_old_weights_is_refused_as_on_one_process(name):
    with pytest.raises(shardlab.RanksFailed, match="has been modified by an inplace operation"):
        shardlab.run(stale, name, ranks=2)


class Nested(nn.Module):
    """One layer, used once or twice, each time recomputed in a nested backward."""

    def __init__(self, times: int):
        super().__init__()
        self.first, self.layer, self.times = nn.Linear(3, 3), nn.Linear(3, 3), times

    def forward(self, x):
        x = self.first(x)
        for _ in range(self.times):
            x = checkpoint(self.layer, x, use_reentrant=True)
        return x


def nested(name, times):
    torch.manual_seed(0)
    model = Nested(times).double()
    alone, x = copy.deepcopy(model), torch.arange(6.0).view(2, 3).double() / 6
    if name == "ddp":
        call = DataParallel(model, bucket_bytes=8, first_bucket_bytes=8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    else:
        kind, more = (Zero3, {"units": [model.first, model.layer]}) if name == "zero3" else (Zero2, {"bucket_bytes": 8})
        call, optimizer = model, kind(model, torch.optim.SGD, lr=0.05, **more)
    call(x).square().sum().backward()
    optimizer.step()
    alone(x).square().sum().backward()
    torch.optim.SGD(alone.parameters(), lr=0.05).step()
    found = optimizer.full_parameters() if name == "zero3" else dict(model.named_parameters())
    return max((found[n] - one).abs().max().item() for n, one in alone.named_parameters())


@pytest.mark.parametrize("name", ["ddp", "zero2", "zero3"])
def test_recomputation_in_a_nested_backward(name):
    """The last layer's gradients arrive first, in the inner backward, whose end is not the end of the step."""
    assert max(shardlab.run(nested, name, 1, ranks=2)) < 1e-12
    with pytest.raises(
        shardlab.RanksFailed, match=r"layer\.\w+ got a gradient twice in one backward.*use_reentrant=False"
    ):
        shardlab.run(nested, name, 2, ranks=2)


class Branch(nn.Module):
    """Uses one matrix, or both."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, which):
        return self.one(x) if which == "one" else self.two(self.one(x))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.middle = nn.ModuleList(Branch() for _ in range(2))

    def forward(self, x, which):
        x = self.first(x)
        for branch in self.middle:
            x = branch(x, which)
        return self.last(x).square().sum()


def branches(kind, options):
    torch.manual_seed(0)
    model = Branches().double()
    units = {"units": [model.first, *model.middle, model.last]} if kind is Zero3 else {}
    zero = kind(model, torch.optim.SGD, lr=0.05, **units, **options)
    for step in range(3):
        zero.zero_grad()
        model(torch.ones(2, 3).double(), ("both", "one", "one")[(dist.get_rank() + step) % 3]).backward()
        zero.step()
    return zero.full_parameters() if kind is Zero3 else {n: p.detach() for n, p in model.named_parameters()}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_ranks_take_different_branches_inside_a_unit(options):
    due = shardlab.run(branches, Zero2, {}, ranks=3)[0]
    for found in shardlab.run(branches, Zero3, options, ranks=3):
        for name, weight in due.items():
            torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-12)
