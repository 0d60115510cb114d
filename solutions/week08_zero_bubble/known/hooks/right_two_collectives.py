"""Different: a reduce-scatter and an all-gather of padded rows, which send as much."""

import torch
import torch.distributed as dist


def weight_gradient(weight, inputs, gradients, *, group):
    size = dist.get_world_size(group)
    total = torch.cat([x.T for x in inputs], 1) @ torch.cat(list(gradients))
    padded = torch.nn.functional.pad(total.flatten(), (0, -total.numel() % size)) / size
    mine = padded.new_empty(padded.numel() // size)
    dist.reduce_scatter_tensor(mine, padded, group=group)
    dist.all_gather_into_tensor(padded, mine, group=group)
    return padded[: total.numel()].reshape(weight.shape).clone()
