"""Different: the page's way, autograd adds."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad


def gathered(shard, width, group):
    whole = shard.new_empty(dist.get_world_size(group) * len(shard))
    dist.all_gather_single(whole, shard, group=group)
    return whole[: width * width].view(width, width)


def mean_slice(gradient, shard, group):
    size = dist.get_world_size(group)
    mine = torch.empty_like(shard)
    flat = pad(gradient.reshape(-1), (0, size * len(shard) - gradient.numel()))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / size


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, width, group):
        ctx.shard, ctx.group = shard, group
        return gathered(shard, width, group)

    @staticmethod
    def backward(ctx, gradient):
        return mean_slice(gradient, ctx.shard, ctx.group), None, None


def tied_step(shards, uses, x, gradient, *, group):
    shards = [shard.clone().requires_grad_() for shard in shards]
    for number in uses:
        x = torch.tanh(x @ Gather.apply(shards[number], x.shape[1], group))
    x.backward(gradient)
    return x.detach(), [shard.grad for shard in shards]
