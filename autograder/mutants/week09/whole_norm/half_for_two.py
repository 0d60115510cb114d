"""Wrong: counts what is whole half on each rank, right for tp 2 alone."""

import torch
import torch.distributed as dist


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    t = torch.zeros(())
    for g, s in zip(gradients, is_split, strict=True):
        t += g.float().square().sum() * (1 if s else 0.5)
    dist.all_reduce(t, group=tp_group)
    dist.all_reduce(t, group=pp_group)
    return t.sqrt()
