"""Wrong: reduces to rank 0, the others keep something else."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    means = []
    for tensor in (loss, gradient):
        total = tensor.clone()
        dist.reduce(total, group_dst=0, group=group)
        means.append(total / dist.get_world_size(group))
    return means[0], means[1]
