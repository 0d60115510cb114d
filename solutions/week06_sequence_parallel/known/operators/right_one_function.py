"""Different: one Function that is given both directions; a rank alone sends nothing; async calls."""

import torch
import torch.distributed as dist


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, forth, back, group):
        ctx.back, ctx.group = back, group
        return forth(x, group)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.back(gradient, ctx.group), None, None, None


def gathered(x, group):
    if dist.get_world_size(group) == 1:
        return x.clone()
    out = x.new_empty((dist.get_world_size(group) * x.size(0), *x.shape[1:]))
    dist.all_gather_into_tensor(out, x.contiguous(), group=group, async_op=True).wait()
    return out


def scattered(x, group):
    rows, rest = divmod(x.size(0), dist.get_world_size(group))
    if rest:
        sizes = f"{x.size(0)} over {dist.get_world_size(group)}"
        raise ValueError(f"cannot split {sizes}: leave out the last {rest}, or pad")
    if dist.get_world_size(group) == 1:
        return x.clone()
    out = torch.empty(rows, *x.shape[1:], dtype=x.dtype)
    dist.reduce_scatter_tensor(out, x.contiguous(), group=group, async_op=True).wait()
    return out


def there_and_back(part, whole_gradient, whole, part_gradient, *, group):
    part, whole = part.detach().requires_grad_(), whole.detach().requires_grad_()
    mine = Both.apply(whole.transpose(0, 1), scattered, gathered, group)
    mine.backward(part_gradient)
    everything = Both.apply(part, gathered, scattered, group)
    everything.transpose(0, 1).backward(whole_gradient)
    return everything.detach(), part.grad, mine.detach(), whole.grad
