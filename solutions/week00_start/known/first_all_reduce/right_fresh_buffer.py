"""Different: copies the input into a fresh buffer by hand."""

import torch
import torch.distributed as dist


def total_of(tensor, *, group):
    total = torch.empty_like(tensor)
    total.copy_(tensor)
    dist.all_reduce(total, group=group)
    return total
