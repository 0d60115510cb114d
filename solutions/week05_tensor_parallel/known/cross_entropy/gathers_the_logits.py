"""Wrong: gathers all logits and calls torch's cross-entropy."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def vocabulary_loss(logits, targets, vocabulary, *, group):
    parts = [torch.empty_like(logits) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, logits, group=group)
    leaf = torch.cat(parts, 1)[:, :vocabulary].requires_grad_()
    losses = cross_entropy(leaf, targets, reduction="none")
    losses.mean().backward()
    gradient = torch.nn.functional.pad(leaf.grad, (0, len(parts) * logits.shape[1] - vocabulary))
    return losses.detach(), gradient.chunk(len(parts), 1)[dist.get_rank(group)].clone()
