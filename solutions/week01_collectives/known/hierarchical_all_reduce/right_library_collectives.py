"""Different: the library's collectives on a padded tensor, one for each of the three phases."""

import torch
import torch.distributed as dist


def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    size = dist.get_world_size(node_group)
    flat = torch.nn.functional.pad(tensor.flatten(), (0, -tensor.numel() % size))
    mine = flat.new_empty(flat.numel() // size)
    dist.reduce_scatter_tensor(mine, flat, group=node_group)
    dist.all_reduce(mine, group=cross_group)
    total = torch.empty_like(flat)
    dist.all_gather_into_tensor(total, mine, group=node_group)
    return total[: tensor.numel()].view(tensor.shape).clone()
