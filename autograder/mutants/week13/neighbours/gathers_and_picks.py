"""Wrong: sends to everybody."""

import torch
import torch.distributed as dist


def swap_with_neighbour(activation, gradient, *, group):
    size, partner = dist.get_world_size(group), dist.get_rank(group) ^ 1
    activations = [torch.empty_like(activation) for _ in range(size)]
    gradients = [torch.empty_like(gradient) for _ in range(size)]
    dist.all_gather(activations, activation, group=group)
    dist.all_gather(gradients, gradient, group=group)
    return activations[partner], gradients[partner]
