"""Different: one flat message for each group, divided before it travels, torch's epsilon in the scale."""

import torch
import torch.distributed as dist


def reduced(gradients, count, group):
    flat = torch.cat([one.flatten() for one in gradients]) / count
    dist.all_reduce(flat, group=group)
    pieces = flat.split([one.numel() for one in gradients])
    return [piece.reshape(one.shape) for piece, one in zip(pieces, gradients, strict=True)], flat


def gradients_step(dense, experts, max_norm, *, dp, ep, edp):
    count = dist.get_world_size(group=dp)
    new_dense, flat_dense = reduced(dense, count, dp)
    new_experts, flat_experts = reduced(experts, count, edp)
    parts = torch.zeros(dist.get_world_size(ep), dtype=torch.float64)
    parts[dist.get_rank(ep)] = flat_experts.double().pow(2).sum()
    dist.all_reduce(parts, group=ep)
    norm = (parts.sum() + flat_dense.double().pow(2).sum()).sqrt().float()
    scale = min(1.0, max_norm / (norm.item() + 1e-6))
    return (norm, *(one * scale for one in (*new_dense, *new_experts)))
