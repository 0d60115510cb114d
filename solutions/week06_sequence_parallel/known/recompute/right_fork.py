"""Different: the state put back by a context manager, gradients by backward() into fresh leaves."""

from contextlib import contextmanager

import torch
from torch.nn.functional import gelu


@contextmanager
def as_it_was(generator, state):
    present = generator.get_state()
    generator.set_state(state)
    yield
    generator.set_state(present)


class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, generator, *inputs):
        ctx.run, ctx.generator = run, generator
        ctx.before = generator.get_state()
        ctx.save_for_backward(*inputs)
        return run(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        leaves = [one.detach().clone().requires_grad_() for one in ctx.saved_tensors]
        with as_it_was(ctx.generator, ctx.before), torch.enable_grad():
            output = ctx.run(*leaves)
        torch.autograd.backward(output, gradient)
        return (None, None, *(leaf.grad for leaf in leaves))


def drop(x, p, generator):
    return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p)


def through_layers(x, layers, gradient, p, seed):
    generator = torch.Generator().manual_seed(seed)
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for up, down in layers:
        y = Again.apply(lambda y, up, down: y + drop(gelu(y @ up), p, generator) @ down, generator, y, up, down)
    y.backward(gradient)
    gradients = [[weight.grad for weight in layer] for layer in layers]
    return y.detach(), x.grad, gradients, torch.rand(1, generator=generator)
