"""Wrong: sends whole slices for one number."""

import torch
import torch.distributed as dist


def clip_slices(gradients, max_norm, *, group):
    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))
    mine = torch.cat([torch.zeros(1), *(gradient.float() for gradient in gradients)])
    sizes = [None] * dist.get_world_size(group)
    dist.all_gather_object(sizes, mine.numel(), group=group)
    mine = torch.cat([mine, torch.zeros(max(sizes) - mine.numel())])
    everyone = [torch.empty_like(mine) for _ in sizes]
    dist.all_gather(everyone, mine, group=group)
    norm = torch.cat(everyone).norm()
    for gradient in gradients:
        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
    return norm
