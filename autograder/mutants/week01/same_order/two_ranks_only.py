"""Wrong: divides by 2 whatever the number of ranks."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    loss, gradient = loss.clone(), gradient.clone()
    dist.all_reduce(loss, group=group)
    dist.all_reduce(gradient, group=group)
    return loss / 2, gradient / 2
