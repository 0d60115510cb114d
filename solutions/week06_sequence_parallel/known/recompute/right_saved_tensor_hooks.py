"""Different: no Function: hooks forget what is saved, and run the layer again when the first of it is asked for."""

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import dropout, gelu


def forgetful(run, *inputs):
    before, kept, again = torch.get_rng_state(), [tensor.detach() for tensor in inputs], []
    count = iter(range(10**6))

    def bring_back(number):
        if not again:
            now = torch.get_rng_state()
            torch.set_rng_state(before)
            leaves = [tensor.clone().requires_grad_() for tensor in kept]
            with torch.enable_grad(), saved_tensors_hooks(lambda t: again.append(t.detach()), lambda t: t):
                run(*leaves)
            torch.set_rng_state(now)
        return again[number]

    with saved_tensors_hooks(lambda tensor: next(count), bring_back):
        return run(*inputs)


def through_layers(x, layers, gradient, p, seed):
    torch.manual_seed(seed)
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for up, down in layers:
        y = forgetful(lambda y, up, down: y + dropout(gelu(y @ up), p) @ down, y, up, down)
    y.backward(gradient)
    return y.detach(), x.grad, [[weight.grad for weight in layer] for layer in layers], torch.rand(1)
