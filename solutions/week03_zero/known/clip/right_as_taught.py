"""Different: as the page solves it."""

import torch
import torch.distributed as dist


def clip_slices(gradients, max_norm, *, group):
    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    for gradient in gradients:
        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
    return norm
