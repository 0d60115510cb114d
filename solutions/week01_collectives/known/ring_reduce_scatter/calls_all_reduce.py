"""Wrong: all-reduces the whole tensor and keeps one chunk, twice the bytes and a library call."""

import torch
import torch.distributed as dist


def ring_reduce_scatter(chunks, *, group):
    totals = torch.cat(list(chunks))
    dist.all_reduce(totals, group=group)
    return totals.split([chunk.numel() for chunk in chunks])[dist.get_rank(group)].clone()
