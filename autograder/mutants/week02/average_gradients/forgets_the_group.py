"""Wrong: the default group."""

import torch.distributed as dist


def average_gradients(gradients, *, group):
    means = [gradient.clone() for gradient in gradients]
    for mean in means:
        dist.all_reduce(mean)
        mean.div_(dist.get_world_size(group))
    return means
