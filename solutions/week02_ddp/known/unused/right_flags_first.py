"""Different: flags by a maximum, then zeros for what is missing."""

import torch
import torch.distributed as dist


def average_used(gradients, parameters, *, group):
    used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.uint8)
    dist.all_reduce(used, dist.ReduceOp.MAX, group=group)
    means = []
    for gradient, parameter, flag in zip(gradients, parameters, used.tolist(), strict=True):
        mean = torch.zeros_like(parameter) if gradient is None else gradient.clone()
        if flag:
            dist.all_reduce(mean, group=group)
            mean.div_(dist.get_world_size(group))
        means.append(mean if flag else None)
    return means
