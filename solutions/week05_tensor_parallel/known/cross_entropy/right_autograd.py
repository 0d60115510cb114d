"""Different: the gradient by autograd of the rank's own part of the formula."""

import torch
import torch.distributed as dist


def vocabulary_loss(logits, targets, vocabulary, *, group):
    columns, first = logits.shape[1], dist.get_rank(group) * logits.shape[1]
    leaf = logits.clone().requires_grad_()
    is_padding = torch.arange(first, first + columns) >= vocabulary
    masked = leaf.masked_fill(is_padding, -torch.inf)
    highest = masked.detach().amax(1)
    dist.all_reduce(highest, dist.ReduceOp.MAX, group=group)
    own_sum = (masked - highest[:, None]).exp().sum(1)
    is_mine = (targets >= first) & (targets < first + columns)
    own_target = leaf.gather(1, (targets - first).where(is_mine, 0)[:, None])[:, 0].where(is_mine, 0.0)
    both = torch.stack([own_sum.detach(), own_target.detach()])
    dist.all_reduce(both, group=group)
    ((own_sum / both[0] - own_target).sum() / len(targets)).backward()
    return both[0].log() + highest - both[1], leaf.grad
