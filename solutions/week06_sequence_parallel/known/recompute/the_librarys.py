"""Wrong: calls torch's own checkpoint, which does not know the layer's generator."""

import torch
from torch.nn.functional import gelu
from torch.utils.checkpoint import checkpoint


def drop(x, p, generator):
    return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p)


def through_layers(x, layers, gradient, p, seed):
    generator = torch.Generator().manual_seed(seed)
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for up, down in layers:
        y = checkpoint(
            lambda y, up, down: y + drop(gelu(y @ up), p, generator) @ down, y, up, down, use_reentrant=False
        )
    y.backward(gradient)
    gradients = [[weight.grad for weight in layer] for layer in layers]
    return y.detach(), x.grad, gradients, torch.rand(1, generator=generator)
