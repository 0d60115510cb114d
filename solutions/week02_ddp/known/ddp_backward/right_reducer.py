"""Different: a class keeps the state, gradients are divided before they are sent, and become views of the bucket."""

import torch
import torch.distributed as dist


class Reducer:
    def __init__(self, parameters, buckets, group):
        self.parameters, self.buckets, self.group = parameters, buckets, group
        self.missing = [len(bucket) for bucket in buckets]
        self.home = {number: place for place, bucket in enumerate(buckets) for number in bucket}
        self.works = []

    def arrived(self, number):
        self.missing[self.home[number]] -= 1
        while len(self.works) < len(self.buckets) and self.missing[len(self.works)] == 0:
            self.send(self.buckets[len(self.works)])

    def send(self, bucket):
        flat = torch.cat([self.parameters[n].grad.reshape(-1) for n in bucket])
        flat /= dist.get_world_size(self.group)
        at = 0
        for n in bucket:
            parameter = self.parameters[n]
            parameter.grad = flat[at : at + parameter.numel()].view(parameter.shape)
            at += parameter.numel()
        self.works.append(dist.all_reduce(flat, async_op=True, group=self.group))


def ddp_backward(model, microbatches, buckets, *, group):
    parameters = list(model.parameters())
    reducer = Reducer(parameters, buckets, group)
    works = [dist.broadcast(p.detach(), group_src=0, group=group, async_op=True) for p in parameters]
    for work in works:
        work.wait()
    for rows in microbatches[:-1]:
        model(rows).sum().backward()
    for number, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(lambda p, n=number: reducer.arrived(n))
    model(microbatches[-1]).sum().backward()
    for work in reducer.works:
        work.wait()
