"""Wrong: a message for each parameter."""

import torch.distributed as dist


def ddp_backward(model, microbatches, buckets, *, group):
    parameters = list(model.parameters())
    for parameter in parameters:
        dist.broadcast(parameter.data, group_src=0, group=group)
    for rows in microbatches:
        model(rows).sum().backward()
    for parameter in parameters:
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= dist.get_world_size(group)
