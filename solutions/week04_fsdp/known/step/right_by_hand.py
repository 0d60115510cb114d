"""Different: the derivative of tanh by hand, from the outputs that were kept."""

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
    width, values = x.shape[1], [x]
    for shard in shards:
        values.append(torch.tanh(values[-1] @ gathered(shard, width, group)))
    slices = [None] * len(shards)
    for number in reversed(range(len(shards))):
        inner = gradient * (1 - values[number + 1] ** 2)
        slices[number] = mean_slice(values[number].T @ inner, shards[number], group)
        gradient = inner @ gathered(shards[number], width, group).T
    return values[-1], slices
