"""Different: as the page solves it."""

import torch
import torch.distributed as dist


def weight_gradient(weight, inputs, gradients, *, group):
    total = torch.zeros_like(weight)
    for layer_input, gradient in zip(inputs, gradients, strict=True):
        total += layer_input.T @ gradient
    dist.all_reduce(total, group=group)
    return total / dist.get_world_size(group)
