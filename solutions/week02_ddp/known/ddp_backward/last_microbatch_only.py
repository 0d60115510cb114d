"""Wrong: the other microbatches are forgotten."""

import torch
import torch.distributed as dist


def ddp_backward(model, microbatches, buckets, *, group):
    parameters = list(model.parameters())
    for parameter in parameters:
        dist.broadcast(parameter.data, group_src=0, group=group)
    waiting, sent = [set(bucket) for bucket in buckets], []

    def arrived(number):
        for numbers in waiting:
            numbers.discard(number)
        while len(sent) < len(buckets) and not waiting[len(sent)]:
            flat = torch.cat([parameters[n].grad.flatten() for n in buckets[len(sent)]])
            sent.append((flat, dist.all_reduce(flat, group=group, async_op=True)))

    for number, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(lambda _, number=number: arrived(number))
    model(microbatches[-1]).sum().backward()
    for bucket, (flat, work) in zip(buckets, sent, strict=True):
        work.wait()
        means = (flat / dist.get_world_size(group)).split([parameters[n].numel() for n in bucket])
        for n, mean in zip(bucket, means, strict=True):
            parameters[n].grad.copy_(mean.view_as(parameters[n]))
