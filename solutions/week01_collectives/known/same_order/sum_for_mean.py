"""Wrong: one order on every rank, but sums where means are due."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    loss, gradient = loss.clone(), gradient.clone()
    dist.all_reduce(loss, group=group)
    dist.all_reduce(gradient, group=group)
    return loss, gradient
