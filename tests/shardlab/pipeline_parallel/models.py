"""Small models for pipeline tests: uneven stages, tied weights, no bias, and a custom autograd Function."""

import torch
from torch import nn

WIDTH, BATCH = 6, 3


class Scale(torch.autograd.Function):
    """x * w with a hand-written backward that records its calls."""

    @staticmethod
    def forward(ctx, x, w, calls):
        ctx.save_for_backward(x, w)
        ctx.calls = calls
        return x * w

    @staticmethod
    def backward(ctx, gradient):
        ctx.calls.append("backward")
        x, w = ctx.saved_tensors
        return gradient * w, (gradient * x).sum(0), None


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.calls = []

    def forward(self, x):
        return Scale.apply(x, self.weight, self.calls)


class Twice(nn.Module):
    """One linear layer at two places on the path."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.linear(torch.tanh(self.linear(x))) + x


def layer(stage):
    """The module of one stage, the same on every rank. Stages differ in depth."""
    torch.manual_seed(100 + stage)
    sorts = [
        lambda: [nn.Linear(WIDTH, WIDTH), nn.Tanh()],
        lambda: [nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)],
        lambda: [Scaled(), nn.Linear(WIDTH, WIDTH)],
        lambda: [Twice(), nn.Tanh()],
    ]
    return nn.Sequential(*sorts[stage % len(sorts)]()).double()


def microbatches(count):
    torch.manual_seed(7)
    return list(torch.randn(count, BATCH, WIDTH, dtype=torch.float64))


def loss(output, microbatch):
    return (output * (microbatch + 1)).square().mean()


def one_process(num_stages, num_microbatches, sign=1):
    """The twin: the same layers in one process. Returns gradients and weights after a step by stage, and the loss."""
    torch.set_num_threads(1)  # as on a rank; several threads would sum LayerNorm's gradients in another order
    layers = [layer(stage) for stage in range(num_stages)]
    total = 0.0
    for number, batch in enumerate(microbatches(num_microbatches)):
        part = loss(nn.Sequential(*layers)(sign * batch), number) * (1 / num_microbatches)
        part.backward()
        total += part.item()
    return [after_step(module) for module in layers], total


def after_step(module):
    """A module's gradients and its weights after one step."""
    gradients = [parameter.grad.clone() for parameter in module.parameters()]
    with torch.no_grad():  # SGD by hand, because the first torch.optim object of a process takes seconds
        return gradients, [parameter - 0.1 * parameter.grad for parameter in module.parameters()]
