"""Wrong: averages in place and returns the caller's tensors."""

import torch.distributed as dist


def average_gradients(gradients, *, group):
    for gradient in gradients:
        dist.all_reduce(gradient, group=group)
        gradient.div_(dist.get_world_size(group))
    return gradients
