"""Different: zeros and flags in one message, in float64."""

import torch
import torch.distributed as dist


def average_used(gradients, parameters, *, group):
    filled = [torch.zeros_like(p) if g is None else g for g, p in zip(gradients, parameters, strict=True)]
    flags = torch.tensor([float(g is not None) for g in gradients], dtype=filled[0].dtype)
    flat = torch.cat([*(tensor.flatten() for tensor in filled), flags])
    dist.all_reduce(flat, group=group)
    *sums, counts = flat.split([*(p.numel() for p in parameters), len(parameters)])
    size = dist.get_world_size(group)
    pairs = zip(sums, parameters, counts.tolist(), strict=True)
    return [(total / size).view_as(p) if count else None for total, p, count in pairs]
