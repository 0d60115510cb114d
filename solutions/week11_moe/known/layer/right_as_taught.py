"""Different: choices as lists of places, an index for each expert."""

import torch
from torch.nn.functional import gelu


def kept(experts, weights, rows, by_score):
    stays = torch.zeros(experts.shape, dtype=torch.bool)
    for expert in range(int(experts.max()) + 1 if experts.numel() else 0):
        token, place = torch.where(experts == expert)
        order = torch.arange(len(token))
        if by_score:
            order = weights[token, place].argsort(descending=True)
        stays[token[order[:rows]], place[order[:rows]]] = True
    return stays


def moe_layer(x, experts, weights, up, down, shared_up, shared_down, rows, by_score):
    stays = kept(experts, weights, rows, by_score)
    y = gelu(x @ shared_up) @ shared_down
    for expert in range(len(up)):
        token, place = torch.where((experts == expert) & stays)
        output = gelu(x[token] @ up[expert]) @ down[expert]
        y = y.index_add(0, token, output * weights[token, place, None])
    return y


def layer_step(x, experts, weights, up, down, shared_up, shared_down, rows, by_score, gradient):
    leaves = [one.clone().requires_grad_() for one in (x, weights, up, down, shared_up, shared_down)]
    y = moe_layer(leaves[0], experts, *leaves[1:], rows, by_score)
    return y.detach(), *torch.autograd.grad(y, leaves, gradient)
