"""Different: counts by an all-to-all of their own, one Function that knows both lists."""

import torch
import torch.distributed as dist


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


def exchange_step(x, sent, gradient, *, group):
    leaf = x.clone().requires_grad_()
    rows, received = exchange(leaf, sent, group=group)
    (back,) = torch.autograd.grad(rows, leaf, gradient)
    return rows.detach(), torch.tensor(received), back
