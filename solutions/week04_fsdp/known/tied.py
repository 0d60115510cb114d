# %% right_returns_it from="page"
"""Different: the page's way, autograd adds."""

import torch
import torch.distributed as dist
from mine import zero
from torch.nn.functional import pad


def gathered(shard, shape, group):
    whole = shard.new_empty(dist.get_world_size(group) * len(shard))
    dist.all_gather_single(whole, shard, group=group)
    return whole[: shape.numel()].view(shape)


def mean_slice(gradient, shard, group):
    size = dist.get_world_size(group)
    mine = torch.empty_like(shard)
    flat = pad(gradient.reshape(-1), (0, size * len(shard) - gradient.numel()))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / size


# %% right_adds_itself of="right_returns_it"
"""Different: adds to .grad where there is one."""

# -        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
# +        mine = mean_slice(gradient, ctx.shard, ctx.group)
# +        ctx.shard.grad = mine if ctx.shard.grad is None else ctx.shard.grad + mine
# +        return None, None, None


# %% counts_twice of="right_returns_it"
"""Wrong: sets the slice and lets autograd add it again."""

# -        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
# +        mine = mean_slice(gradient, ctx.shard, ctx.group)
# +        ctx.shard.grad = mine.clone()
# +        return mine, None, None


# %% first_use_wins of="right_returns_it"
"""Wrong: keeps what comes first."""

# -        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
# +        mine = mean_slice(gradient, ctx.shard, ctx.group)
# +        ctx.shard.grad = mine if ctx.shard.grad is None else ctx.shard.grad
# +        return None, None, None


# %% overwrites of="right_returns_it"
"""Wrong: the page's bug, the last use wins."""

# -        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
# +        ctx.shard.grad = mean_slice(gradient, ctx.shard, ctx.group)
# +        return None, None, None


# %% two_uses_only of="right_returns_it"
"""Wrong: adds the first and the last use."""

# -        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
# +        mine = mean_slice(gradient, ctx.shard, ctx.group)
# +        if ctx.shard.grad is not None:
# +            mine = mine + (ctx.shard.first if hasattr(ctx.shard, "first") else ctx.shard.grad)
# +        else:
# +            ctx.shard.first = mine
# +        ctx.shard.grad = mine
# +        return None, None, None


# %% mean_over_uses of="right_returns_it"
"""Wrong: the mean over the uses."""

# -        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
# +        shard = ctx.shard
# +        shard.slices = [*getattr(shard, "slices", []), mean_slice(gradient, shard, ctx.group)]
# +        shard.grad = sum(shard.slices) / len(shard.slices)
# +        return None, None, None


# %% forgets_the_subgroup of="right_returns_it"
"""Wrong: gathers and reduces over the world."""

# -        ctx.shard, ctx.group = shard, group
# -        return gathered(shard, shape, group)
# +        ctx.shard, ctx.group = shard, None
# +        return gathered(shard, shape, None)


# %% square_alone of="right_returns_it"
"""Wrong: takes every weight for a square one."""

#          ctx.shard, ctx.group = shard, group
# -        return gathered(shard, shape, group)
# +        return gathered(shard, torch.Size([shape[0], shape[0]]), group)


# %% first_slice_everywhere of="right_returns_it"
"""Wrong: every rank returns the first slice of the mean gradient."""

# -        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
# +        total = gradient.clone()
# +        dist.all_reduce(total, group=ctx.group)
# +        return total.flatten()[: len(ctx.shard)] / dist.get_world_size(ctx.group), None, None


# %% own_gradient_only of="right_returns_it"
"""Wrong: no rank hears of the others."""

# -        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
# +        size = dist.get_world_size(ctx.group)
# +        flat = pad(gradient.reshape(-1), (0, size * len(ctx.shard) - gradient.numel()))
# +        return flat.chunk(size)[dist.get_rank(ctx.group)].clone(), None, None


# %% sum_over_ranks of="right_returns_it"
"""Wrong: the sum over ranks."""

# -        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
# +        return mean_slice(gradient, ctx.shard, ctx.group) * dist.get_world_size(ctx.group), None, None


# %% right_by_lists
"""Different: lists of slices, without the given helpers; keeps sizes instead of the shard."""

import torch
import torch.distributed as dist


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, shape, group):
        ctx.length, ctx.group = len(shard), group
        parts = [torch.empty_like(shard) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, shard.contiguous(), group=group)
        return torch.cat(parts)[: shape.numel()].reshape(shape).clone()

    @staticmethod
    def backward(ctx, gradient):
        size = dist.get_world_size(ctx.group)
        flat = gradient.new_zeros(size * ctx.length)
        flat[: gradient.numel()] = gradient.flatten() / size
        mine = torch.empty_like(flat[: ctx.length])
        dist.reduce_scatter(mine, list(flat.chunk(size)), group=ctx.group)
        return mine, None, None


def tied_step(shards, shapes, uses, x, gradient, *, group):
    shards = [shard.clone().requires_grad_() for shard in shards]
    for number in uses:
        x = torch.tanh(x @ Gather.apply(shards[number], torch.Size(shapes[number]), group))
    x.backward(gradient)
    return x.detach(), [shard.grad for shard in shards]


# %% padded_at_the_front of="right_by_lists"
"""Wrong: the gradient's padding comes first."""

# -        flat[: gradient.numel()] = gradient.flatten() / size
# +        flat[flat.numel() - gradient.numel() :] = gradient.flatten() / size

# %% no_gradient of="right_by_lists"
"""Wrong: a weight without a gradient."""

# -        return mine, None, None
# +        return None, None, None
