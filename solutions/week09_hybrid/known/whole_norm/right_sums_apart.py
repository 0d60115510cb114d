"""Different: only the squares of what is split travel over tp."""

import torch
import torch.distributed as dist


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    split = sum((g.float().square().sum() for g, s in zip(gradients, is_split, strict=True) if s), torch.zeros(()))
    whole = sum((g.float().square().sum() for g, s in zip(gradients, is_split, strict=True) if not s), torch.zeros(()))
    dist.all_reduce(split, group=tp_group)
    total = split + whole
    dist.all_reduce(total, group=pp_group)
    return float(total.sqrt())
