"""Wrong: right gradients in the right buckets, but all of them leave after the backward."""

import torch
import torch.distributed as dist


def ddp_backward(model, microbatches, buckets, *, group):
    parameters = list(model.parameters())
    for parameter in parameters:
        dist.broadcast(parameter.data, group_src=0, group=group)
    for rows in microbatches:
        model(rows).sum().backward()
    for bucket in buckets:
        flat = torch.cat([parameters[n].grad.flatten() for n in bucket])
        dist.all_reduce(flat, group=group)
        means = (flat / dist.get_world_size(group)).split([parameters[n].numel() for n in bucket])
        for n, mean in zip(bucket, means, strict=True):
            parameters[n].grad.copy_(mean.view_as(parameters[n]))
