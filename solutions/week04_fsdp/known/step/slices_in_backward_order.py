"""Wrong: the slices lie in the order of the backward."""

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


def zero3_step(shards, x, gradient, *, group):
    width, inputs, slices = x.shape[1], [], []
    with torch.no_grad():
        for shard in shards:
            inputs.append(x)
            x = torch.tanh(x @ gathered(shard, width, group))
    output = x
    for shard, given in zip(shards[::-1], inputs[::-1], strict=True):
        x = given.detach().requires_grad_()
        weight = gathered(shard, width, group).requires_grad_()
        torch.tanh(x @ weight).backward(gradient)
        slices.append(mean_slice(weight.grad, shard, group))
        gradient = x.grad
        del weight
    return output, slices
