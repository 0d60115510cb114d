"""Different: no operators: the forward without a graph, each layer's backward in three pieces with messages between."""

import torch
import torch.distributed as dist
from torch.nn.functional import gelu, layer_norm


def gathered(x, group):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x.contiguous(), group=group)
    return torch.cat(parts)


def scattered(x, group):
    parts = [part.contiguous() for part in x.chunk(dist.get_world_size(group))]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts, group=group)
    return mine


def block_step(x, layers, gradient, *, group):
    tape, y = [], x
    for layer in layers:
        gain, shift, columns, rows = (weight.clone().requires_grad_() for weight in layer)
        entered = y.clone().requires_grad_()
        normed = layer_norm(entered, gain.shape, gain, shift)
        whole = gathered(normed.detach(), group).requires_grad_()
        partial = gelu(whole @ columns) @ rows
        y = y + scattered(partial.detach(), group)
        tape.append((entered, normed, whole, partial, (gain, shift, columns, rows)))
    found = []
    for entered, normed, whole, partial, weights in reversed(tape):
        partial.backward(gathered(gradient, group))
        normed.backward(scattered(whole.grad, group))
        gradient = gradient + entered.grad
        for weight in weights[:2]:
            dist.all_reduce(weight.grad, group=group)
        found.insert(0, [weight.grad for weight in weights])
    return y, gradient, found
