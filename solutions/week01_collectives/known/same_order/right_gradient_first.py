"""Different: gradient first, on every rank."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    mean_gradient = gradient.clone()
    dist.all_reduce(mean_gradient, group=group)
    mean_loss = loss.clone()
    dist.all_reduce(mean_loss, group=group)
    return mean_loss / dist.get_world_size(group), mean_gradient / dist.get_world_size(group)
