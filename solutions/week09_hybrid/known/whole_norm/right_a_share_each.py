"""Different: every tensor-parallel rank counts its share of what is whole."""

import torch
import torch.distributed as dist


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    size = dist.get_world_size(tp_group)
    squares = [g.double().square().sum() / (1 if s else size) for g, s in zip(gradients, is_split, strict=True)]
    total = torch.stack(squares).sum()
    for group in (pp_group, tp_group):
        dist.all_reduce(total, group=group)
    return total.item() ** 0.5
