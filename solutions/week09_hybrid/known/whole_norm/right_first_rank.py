"""Different: what is whole is counted on the first tensor-parallel rank."""

import torch
import torch.distributed as dist


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    first = dist.get_rank(tp_group) == 0
    total = torch.zeros(())
    for gradient, split in zip(gradients, is_split, strict=True):
        if split or first:
            total += gradient.float().square().sum()
    dist.all_reduce(total, group=tp_group)
    dist.all_reduce(total, group=pp_group)
    return total.sqrt()
