"""Wrong: everybody gets everything, N/2 times the bytes."""

import torch
import torch.distributed as dist


def average_gradients(gradients, *, group):
    size = dist.get_world_size(group)
    means = []
    for gradient in gradients:
        everybody = [torch.empty_like(gradient) for _ in range(size)]
        dist.all_gather(everybody, gradient, group=group)
        means.append(torch.stack(everybody).sum(0) / size)
    return means
