"""Wrong: a half, whatever the number of ranks."""

import torch.distributed as dist


def average_gradients(gradients, *, group):
    means = [gradient.clone() for gradient in gradients]
    for mean in means:
        dist.all_reduce(mean, group=group)
        mean.div_(2)
    return means
