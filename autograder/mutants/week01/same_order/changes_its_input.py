"""Wrong: right means, but the caller's tensors are overwritten."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    for tensor in (loss, gradient):
        dist.all_reduce(tensor, group=group)
        tensor.div_(dist.get_world_size(group))
    return loss, gradient
