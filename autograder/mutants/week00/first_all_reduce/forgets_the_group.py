"""Wrong: adds up over the world, in which a rank outside the group never calls."""

import torch.distributed as dist


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total)
    return total
