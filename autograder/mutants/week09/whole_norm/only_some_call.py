"""Wrong: only the first tensor-parallel ranks call the last all-reduce and know the norm."""

import torch
import torch.distributed as dist


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    first = dist.get_rank(tp_group) == 0
    total = torch.zeros(())
    for gradient, split in zip(gradients, is_split, strict=True):
        if split or first:
            total += gradient.float().square().sum()
    dist.reduce(total, group=tp_group, group_dst=0)
    if first:
        dist.all_reduce(total, group=pp_group)
    return total.sqrt()
