"""Wrong: sums over the group and divides by the size of the world."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    loss, gradient = loss.clone(), gradient.clone()
    dist.all_reduce(loss, group=group)
    dist.all_reduce(gradient, group=group)
    return loss / dist.get_world_size(), gradient / dist.get_world_size()
