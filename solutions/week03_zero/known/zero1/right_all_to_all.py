"""Different: slices by all-to-all, added up by their owner."""

import torch
import torch.distributed as dist
from shardlab.model import adam


def flatten_and_pad(tensors, num_ranks):
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])


def unflatten(flat, tensors):
    parts, begin = [], 0
    for tensor in tensors:
        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
        begin += tensor.numel()
    return parts


def mean_slice(tensors, *, group):
    flat = flatten_and_pad(tensors, dist.get_world_size(group))
    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
    parts = torch.empty_like(flat)
    dist.all_to_all_single(parts, flat, group=group)
    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
    return mine / dist.get_world_size(group)


def zero1_state(parameters, *, group):
    flat = flatten_and_pad(parameters, dist.get_world_size(group))
    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])


@torch.no_grad()
def zero1_step(parameters, gradients, state, lr, *, group):
    adam.update(state, mean_slice(gradients, group=group), lr=lr)
    mine = state["master"].to(parameters[0].dtype)
    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
    dist.all_gather_single(flat, mine, group=group)
    for parameter, new in zip(parameters, unflatten(flat, parameters), strict=True):
        parameter.copy_(new)
