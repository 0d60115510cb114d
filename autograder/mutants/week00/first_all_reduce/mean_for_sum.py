"""Wrong: divides by the number of ranks, so it is the mean."""

import torch.distributed as dist


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total / dist.get_world_size(group)
