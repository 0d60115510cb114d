"""Wrong: the version of the page, rank 0 all-reduces in another order than the rest."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    first, second = loss.clone(), gradient.clone()
    for tensor in [second, first] if dist.get_rank(group) == 0 else [first, second]:
        dist.all_reduce(tensor, group=group)
    return first / dist.get_world_size(group), second / dist.get_world_size(group)
