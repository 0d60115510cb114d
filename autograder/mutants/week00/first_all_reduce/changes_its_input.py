"""Wrong: right sum, but all_reduce works in place and the caller's tensor is overwritten."""

import torch.distributed as dist


def total_of(tensor, *, group):
    dist.all_reduce(tensor, group=group)
    return tensor
