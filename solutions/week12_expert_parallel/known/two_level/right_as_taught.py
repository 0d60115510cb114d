"""Different: the layer of one level, inside the node, with one choice for each row."""

import torch
import torch.distributed as dist
from torch.nn.functional import gelu


def moved(x, sent, received, group):
    came = x.new_empty(sum(received), *x.shape[1:])
    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
    return came


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, sent, received, group):
        ctx.way = received, sent, group
        return moved(x, sent, received, group)

    @staticmethod
    def backward(ctx, gradient):
        return moved(gradient, *ctx.way), None, None, None


def exchange(x, sent, *, group):
    counts = torch.tensor(sent)
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts, group=group)
    received = received.tolist()
    return AllToAll.apply(x, sent, received, group), received


def run_experts(rows, numbers, up, down):
    order = numbers.argsort(stable=True)
    pieces = rows[order].split(torch.bincount(numbers, minlength=len(up)).tolist())
    done = torch.cat([gelu(piece @ up[e]) @ down[e] for e, piece in enumerate(pieces)])
    return done[order.argsort()]


def expert_layer(x, experts, weights, up, down, *, group):
    own, k, chosen = len(up), experts.shape[1], experts.flatten()
    order = chosen.argsort(stable=True)
    sent = torch.bincount(chosen // own, minlength=dist.get_world_size(group)).tolist()
    rows, received = exchange(x[order // k], sent, group=group)
    numbers, _ = exchange(chosen[order] % own, sent, group=group)
    back, _ = exchange(run_experts(rows, numbers, up, down), received, group=group)
    y = back[order.argsort()].view(*experts.shape, x.shape[1])
    return (y * weights[..., None]).sum(1)


def two_level_layer(x, experts, weights, up, down, *, across, inside):
    per_node = len(up) * dist.get_world_size(inside)
    num_nodes, node = dist.get_world_size(across), dist.get_rank(across)
    wanted = torch.zeros(num_nodes, len(x), dtype=torch.bool)
    for number in range(num_nodes):
        wanted[number] = (experts // per_node == number).any(1)
    sent, token = wanted.sum(1).tolist(), wanted.nonzero()[:, 1]
    copies, received = exchange(x[token], sent, group=across)
    theirs, _ = exchange(experts[token], sent, group=across)
    scales, _ = exchange(weights[token], sent, group=across)
    here, choice = (theirs // per_node == node).nonzero(as_tuple=True)
    chosen, scale = theirs[here, choice][:, None] % per_node, scales[here, choice][:, None]
    done = expert_layer(copies[here], chosen, scale, up, down, group=inside)
    sums = torch.zeros_like(copies).index_add(0, here, done)
    back, _ = exchange(sums, received, group=across)
    return torch.zeros_like(x).index_add(0, token, back)


def two_level_step(x, experts, weights, up, down, gradient, *, across, inside):
    leaves = [one.clone().requires_grad_() for one in (x, weights)]
    y = two_level_layer(leaves[0], experts, leaves[1], up, down, across=across, inside=inside)
    return y.detach(), *torch.autograd.grad(y, leaves, gradient)
