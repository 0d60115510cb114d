"""Wrong: repaired for rank 0, now odd ranks use the other order."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    means = {"loss": loss.clone(), "gradient": gradient.clone()}
    for name in sorted(means, reverse=dist.get_rank(group) % 2 == 1):
        dist.all_reduce(means[name], group=group)
        means[name] /= dist.get_world_size(group)
    return means["loss"], means["gradient"]
