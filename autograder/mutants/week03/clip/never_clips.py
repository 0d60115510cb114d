"""Wrong: returns the norm and changes nothing."""

import torch
import torch.distributed as dist


def clip_slices(gradients, max_norm, *, group):
    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    return norm
