"""Wrong: calls torch's own checkpoint."""

import torch
from torch.nn.functional import dropout, gelu
from torch.utils.checkpoint import checkpoint


def through_layers(x, layers, gradient, p, seed):
    torch.manual_seed(seed)
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for up, down in layers:
        y = checkpoint(lambda y, up, down: y + dropout(gelu(y @ up), p) @ down, y, up, down, use_reentrant=False)
    y.backward(gradient)
    return y.detach(), x.grad, [[weight.grad for weight in layer] for layer in layers], torch.rand(1)
