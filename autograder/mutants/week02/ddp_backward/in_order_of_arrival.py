"""Wrong: a bucket leaves as soon as it is full, whosever turn it is, so two ranks may add up different buckets."""

import torch
import torch.distributed as dist


def ddp_backward(model, microbatches, buckets, *, group):
    parameters = list(model.parameters())
    for parameter in parameters:
        dist.broadcast(parameter.data, group_src=0, group=group)
    for rows in microbatches[:-1]:
        model(rows).sum().backward()
    waiting, sent = [set(bucket) for bucket in buckets], []

    def arrived(number):
        bucket = next(bucket for bucket in buckets if number in bucket)
        missing = waiting[buckets.index(bucket)]
        missing.discard(number)
        if not missing:
            flat = torch.cat([parameters[n].grad.flatten() for n in bucket])
            sent.append((bucket, flat, dist.all_reduce(flat, group=group, async_op=True)))

    hooks = [
        parameter.register_post_accumulate_grad_hook(lambda _, number=number: arrived(number))
        for number, parameter in enumerate(parameters)
    ]
    model(microbatches[-1]).sum().backward()
    for hook in hooks:
        hook.remove()
    for bucket, flat, work in sent:
        work.wait()
        for n, mean in zip(bucket, flat.split([parameters[n].numel() for n in bucket]), strict=True):
            parameters[n].grad.copy_(mean.view_as(parameters[n]) / dist.get_world_size(group))
