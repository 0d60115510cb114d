"""Wrong: takes the largest instead of the sum."""

import torch.distributed as dist


def total_of(tensor, *, group):
    total = tensor.clone()
    dist.all_reduce(total, op=dist.ReduceOp.MAX, group=group)
    return total
