"""Wrong: gathers everybody's tensor and keeps one, right answer and far too many bytes."""

import torch
import torch.distributed as dist


def exchange(tensor, *, group):
    everyone = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyone, tensor, group=group)
    return everyone[dist.get_rank(group) ^ 1]
