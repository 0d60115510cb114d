"""Different: no Function: hooks forget what is saved, and run the layer again when the first of it is asked for."""

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import gelu


def forgetful(run, generator, *inputs):
    before, kept, again = generator.get_state(), [tensor.detach() for tensor in inputs], []
    count = iter(range(10**6))

    def bring_back(number):
        if not again:
            now = generator.get_state()
            generator.set_state(before)
            leaves = [tensor.clone().requires_grad_() for tensor in kept]
            with torch.enable_grad(), saved_tensors_hooks(lambda t: again.append(t.detach()), lambda t: t):
                run(*leaves)
            generator.set_state(now)
        return again[number]

    with saved_tensors_hooks(lambda tensor: next(count), bring_back):
        return run(*inputs)


def drop(x, p, generator):
    return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p)


def through_layers(x, layers, gradient, p, seed):
    generator = torch.Generator().manual_seed(seed)
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for up, down in layers:
        y = forgetful(lambda y, up, down: y + drop(gelu(y @ up), p, generator) @ down, generator, y, up, down)
    y.backward(gradient)
    gradients = [[weight.grad for weight in layer] for layer in layers]
    return y.detach(), x.grad, gradients, torch.rand(1, generator=generator)
