"""Different: one all-reduce for each of the three numbers, a one-hot gradient."""

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp


def vocabulary_loss(logits, targets, vocabulary, *, group):
    rows, columns = logits.shape
    numbers = dist.get_rank(group) * columns + torch.arange(columns)
    is_target = (targets[:, None] == numbers[None, :]).float()
    safe = torch.where(numbers < vocabulary, logits, torch.full_like(logits, -1e30))
    highest = safe.max(dim=1).values
    dist.all_reduce(highest, op=ReduceOp.MAX, group=group)
    shifted = (safe - highest[:, None]).exp()
    total = shifted.sum(1)
    dist.all_reduce(total, group=group)
    chosen = (torch.where(numbers < vocabulary, logits, 0.0) * is_target).sum(1)
    dist.all_reduce(chosen, group=group)
    return total.log() + highest - chosen, (shifted / total[:, None] - is_target) / rows
