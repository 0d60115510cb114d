"""Wrong: a broadcast instead of a mean."""

import torch.distributed as dist


def average_gradients(gradients, *, group):
    means = [gradient.clone() for gradient in gradients]
    for mean in means:
        dist.broadcast(mean, group_src=0, group=group)
    return means
