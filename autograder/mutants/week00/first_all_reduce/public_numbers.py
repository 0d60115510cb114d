"""Wrong: a constant that was right for one visible case."""

import torch
import torch.distributed as dist


def total_of(tensor, *, group):
    dist.all_reduce(torch.ones(1), group=group)
    return torch.full_like(tensor, 10.0)
