"""Different: its own operators, and torch's linear layers."""

import torch
import torch.distributed as dist
from torch.nn.functional import linear


class Entry(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None


class Exit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, up, up_bias, down, down_bias)]
    x, up, up_bias, down, down_bias = leaves
    inner = linear(Entry.apply(x, group), up.T, up_bias).relu()
    y = Exit.apply(linear(inner, down.T), group) + down_bias
    return [y.detach(), *torch.autograd.grad(y, leaves, gradient)]
