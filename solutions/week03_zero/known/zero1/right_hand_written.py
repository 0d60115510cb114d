"""Different: Adam and the state by hand, the mean taken before the sum."""

import torch
import torch.distributed as dist


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
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / dist.get_world_size(group)


def zero1_state(parameters, *, group):
    flat = flatten_and_pad(parameters, dist.get_world_size(group))
    mine = flat.chunk(dist.get_world_size(group))[dist.get_rank(group)].float().clone()
    zeros = torch.zeros_like(mine)
    return {"master": mine, "momentum": zeros, "variance": zeros.clone(), "step": 0}


@torch.no_grad()
def zero1_step(parameters, gradients, state, lr, *, group):
    g = mean_slice(gradients, group=group).float()
    state["step"] += 1
    m, v, t = state["momentum"], state["variance"], state["step"]
    m.copy_(0.9 * m + 0.1 * g)
    v.copy_(0.999 * v + 0.001 * g * g)
    state["master"] -= lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    mine = state["master"].to(parameters[0].dtype)
    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
    dist.all_gather_single(flat, mine, group=group)
    for parameter, new in zip(parameters, unflatten(flat, parameters), strict=True):
        parameter.copy_(new)
