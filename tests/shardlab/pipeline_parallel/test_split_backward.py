"""I then W equals one backward for the parts of real models. Nothing is computed or counted twice."""

import pytest
import torch
from models import Scaled, Twice
from shardlab.pipeline_parallel.split_backward import backward_input
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

WIDTH = 6


class Attention(nn.Module):
    """Three projections of one input, joined again, with a residual path."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x):
        return x + self.attention(x, x, x, need_weights=False)[0]


class Shared(nn.Module):
    """One weight in two parallel branches, one of which bypasses the input's path."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x):
        return torch.tanh(x @ self.weight) * self.weight.sum(0)


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


def frozen():
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
    module[0].requires_grad_(False)
    return module


MODULES = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "no bias": lambda: nn.Linear(WIDTH, WIDTH, bias=False),
    "attention": Attention,
    "shared weight": Shared,
    "tied layer": Twice,
    "custom function": Scaled,
    "weight norm": lambda: weight_norm(nn.Linear(WIDTH, WIDTH)),
    "recomputed": Recomputed,
    "frozen": frozen,
    "no weights": nn.Tanh,
    "deep": lambda: nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(400)]),
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
    module, x = MODULES[name]().double(), torch.randn(2, 3, WIDTH, dtype=torch.float64)
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
    module, x = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)), torch.randn(3, WIDTH)
    source = x.requires_grad_()
    output = module(source)
    weights = backward_input(output, torch.ones_like(output), source)
    assert all(parameter.grad is None for parameter in module.parameters())
    kept = source.grad.clone()
    weights()
    assert torch.equal(source.grad, kept)
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_a_loss_needs_no_gradient_from_outside():
    module, x = nn.Linear(WIDTH, WIDTH), torch.randn(3, WIDTH)
    whole = gradients(module, x, lambda output, _: output.square().mean().backward())
    halves = gradients(module, x, lambda output, source: backward_input(output.square().mean(), None, source)())
    for got, expected in zip(halves, whole, strict=True):
        assert torch.equal(got, expected)
