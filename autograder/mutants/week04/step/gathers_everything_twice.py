"""Wrong: as many bytes as it should, but all units whole at once, forward and backward."""

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
    weights = [gathered(shard, x.shape[1], group) for shard in shards]
    with torch.no_grad():
        given = x
        for weight in weights:
            x = torch.tanh(x @ weight)
    output, x = x, given
    del weights, weight
    weights = [gathered(shard, x.shape[1], group).requires_grad_() for shard in shards]
    for weight in weights:
        x = torch.tanh(x @ weight)
    x.backward(gradient)
    return output, [mean_slice(w.grad, shard, group) for w, shard in zip(weights, shards, strict=True)]
