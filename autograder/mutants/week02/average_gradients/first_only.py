"""Wrong: only the first gradient travels."""

import torch.distributed as dist


def average_gradients(gradients, *, group):
    means = [gradient.clone() for gradient in gradients]
    dist.all_reduce(means[0], group=group)
    means[0] /= dist.get_world_size(group)
    return means
