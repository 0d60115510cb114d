"""Different: clips only when there is something to clip."""

import torch
import torch.distributed as dist


def clip_slices(gradients, max_norm, *, group):
    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm
