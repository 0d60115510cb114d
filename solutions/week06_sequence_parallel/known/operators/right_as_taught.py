"""Different: lists of parts, put together with cat."""

import torch
import torch.distributed as dist


def all_of(x, group):
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x.contiguous(), group=group)
    return torch.cat(parts)


def sum_of_own(x, group):
    size = dist.get_world_size(group)
    if x.shape[0] % size != 0:
        raise ValueError(f"{x.shape[0]} positions do not fit on {size} ranks")
    parts = [part.contiguous() for part in x.chunk(size)]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts, group=group)
    return mine


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return all_of(x, group)

    @staticmethod
    def backward(ctx, gradient):
        return sum_of_own(gradient, ctx.group), None


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return sum_of_own(x, group)

    @staticmethod
    def backward(ctx, gradient):
        return all_of(gradient, ctx.group), None


def there_and_back(part, whole_gradient, whole, part_gradient, *, group):
    part, whole = part.detach().requires_grad_(), whole.detach().requires_grad_()
    mine = Scatter.apply(whole.transpose(0, 1), group)
    mine.backward(part_gradient)
    everything = Gather.apply(part, group)
    everything.transpose(0, 1).backward(whole_gradient)
    return everything.detach(), part.grad, mine.detach(), whole.grad
