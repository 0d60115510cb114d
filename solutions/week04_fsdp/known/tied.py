# %% right_adds_itself
"""Different: adds to .grad where there is one."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad


def gathered(shard, width, group):
    whole = shard.new_empty(dist.get_world_size(group) * len(shard))
    dist.all_gather_single(whole, shard, group=group)
    return whole[: width * width].view(width, width)


def mean_slice(gradient, shard, group):
    size = dist.get_world_size(group)
    mine = torch.empty_like(shard)
    flat = pad(gradient.reshape(-1), (0, size * len(shard) - gradient.numel()))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / size


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, width, group):
        ctx.shard, ctx.group = shard, group
        return gathered(shard, width, group)

    @staticmethod
    def backward(ctx, gradient):
        mine = mean_slice(gradient, ctx.shard, ctx.group)
        ctx.shard.grad = mine if ctx.shard.grad is None else ctx.shard.grad + mine
        return None, None, None


def tied_step(shards, uses, x, gradient, *, group):
    shards = [shard.clone().requires_grad_() for shard in shards]
    for number in uses:
        x = torch.tanh(x @ Gather.apply(shards[number], x.shape[1], group))
    x.backward(gradient)
    return x.detach(), [shard.grad for shard in shards]


# %% counts_twice of="right_adds_itself"
"""Wrong: sets the slice and lets autograd add it again."""

# -        ctx.shard.grad = mine if ctx.shard.grad is None else ctx.shard.grad + mine
# -        return None, None, None
# +        ctx.shard.grad = mine.clone()
# +        return mine, None, None

# %% doubles_what_is_shared of="right_adds_itself"
"""Wrong: the last use times the number of uses."""

# -        mine = mean_slice(gradient, ctx.shard, ctx.group)
# -        ctx.shard.grad = mine if ctx.shard.grad is None else ctx.shard.grad + mine
# +        ctx.shard.grad = mean_slice(gradient, ctx.shard, ctx.group)

# -    return x.detach(), [shard.grad for shard in shards]
# +    return x.detach(), [shard.grad * uses.count(number) for number, shard in enumerate(shards)]

# %% first_use_wins of="right_adds_itself"
"""Wrong: keeps what comes first."""

# -        ctx.shard.grad = mine if ctx.shard.grad is None else ctx.shard.grad + mine
# +        ctx.shard.grad = mine if ctx.shard.grad is None else ctx.shard.grad

# %% overwrites of="right_adds_itself"
"""Wrong: the page's bug, the last use wins."""

# -        mine = mean_slice(gradient, ctx.shard, ctx.group)
# -        ctx.shard.grad = mine if ctx.shard.grad is None else ctx.shard.grad + mine
# +        ctx.shard.grad = mean_slice(gradient, ctx.shard, ctx.group)

# %% two_uses_only of="right_adds_itself"
"""Wrong: adds the first and the last use."""

# -        ctx.shard.grad = mine if ctx.shard.grad is None else ctx.shard.grad + mine
# +        if ctx.shard.grad is not None:
# +            mine = mine + (ctx.shard.first if hasattr(ctx.shard, "first") else ctx.shard.grad)
# +        else:
# +            ctx.shard.first = mine
# +        ctx.shard.grad = mine

# %% right_copies_added
"""Different: a copy of the slice for each use, added up at the end."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad


def gathered(shard, width, group):
    whole = shard.new_empty(dist.get_world_size(group) * len(shard))
    dist.all_gather_single(whole, shard, group=group)
    return whole[: width * width].view(width, width)


def mean_slice(gradient, shard, group):
    size = dist.get_world_size(group)
    mine = torch.empty_like(shard)
    flat = pad(gradient.reshape(-1), (0, size * len(shard) - gradient.numel()))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / size


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, width, group):
        ctx.shard, ctx.group = shard, group
        return gathered(shard, width, group)

    @staticmethod
    def backward(ctx, gradient):
        return mean_slice(gradient, ctx.shard, ctx.group), None, None


def tied_step(shards, uses, x, gradient, *, group):
    leaves = [shards[number].clone().requires_grad_() for number in uses]
    for leaf in leaves:
        x = torch.tanh(x @ Gather.apply(leaf, x.shape[1], group))
    x.backward(gradient)
    return x.detach(), [
        sum(leaf.grad for leaf, use in zip(leaves, uses, strict=True) if use == n) for n in range(len(shards))
    ]


# %% copies_for_each_use of="right_copies_added"
"""Wrong: a copy of the slice for each use, and only the first copy is looked at."""

# -    return x.detach(), [
# -        sum(leaf.grad for leaf, use in zip(leaves, uses, strict=True) if use == n) for n in range(len(shards))
# -    ]
# +    return x.detach(), [leaves[uses.index(number)].grad for number in range(len(shards))]

# %% right_reduces_once
"""Different: gathers each weight once, adds its uses up whole, and reduces it once."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad


def gathered(shard, width, group):
    whole = shard.new_empty(dist.get_world_size(group) * len(shard))
    dist.all_gather_single(whole, shard, group=group)
    return whole[: width * width].view(width, width)


def mean_slice(gradient, shard, group):
    size = dist.get_world_size(group)
    mine = torch.empty_like(shard)
    flat = pad(gradient.reshape(-1), (0, size * len(shard) - gradient.numel()))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / size


def tied_step(shards, uses, x, gradient, *, group):
    leaves = [gathered(shard, x.shape[1], group).requires_grad_() for shard in shards]
    for number in uses:
        x = torch.tanh(x @ leaves[number])
    x.backward(gradient)
    return x.detach(), [mean_slice(leaf.grad, shard, group) for leaf, shard in zip(leaves, shards, strict=True)]


# %% right_returns_it
"""Different: the page's way, autograd adds."""

import torch
import torch.distributed as dist
from torch.nn.functional import pad


def gathered(shard, width, group):
    whole = shard.new_empty(dist.get_world_size(group) * len(shard))
    dist.all_gather_single(whole, shard, group=group)
    return whole[: width * width].view(width, width)


def mean_slice(gradient, shard, group):
    size = dist.get_world_size(group)
    mine = torch.empty_like(shard)
    flat = pad(gradient.reshape(-1), (0, size * len(shard) - gradient.numel()))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / size


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, width, group):
        ctx.shard, ctx.group = shard, group
        return gathered(shard, width, group)

    @staticmethod
    def backward(ctx, gradient):
        return mean_slice(gradient, ctx.shard, ctx.group), None, None


def tied_step(shards, uses, x, gradient, *, group):
    shards = [shard.clone().requires_grad_() for shard in shards]
    for number in uses:
        x = torch.tanh(x @ Gather.apply(shards[number], x.shape[1], group))
    x.backward(gradient)
    return x.detach(), [shard.grad for shard in shards]


# %% forgets_the_subgroup of="right_returns_it"
"""Wrong: gathers and reduces over the world."""

# -        x = torch.tanh(x @ Gather.apply(shards[number], x.shape[1], group))
# +        x = torch.tanh(x @ Gather.apply(shards[number], x.shape[1], None))

# %% mean_over_uses of="right_returns_it"
"""Wrong: the mean over the uses."""

# -    return x.detach(), [shard.grad for shard in shards]
# +    return x.detach(), [shard.grad / uses.count(number) for number, shard in enumerate(shards)]

# %% own_gradient_only of="right_returns_it"
"""Wrong: no rank hears of the others."""

# -        return mean_slice(gradient, ctx.shard, ctx.group), None, None
# +        size = dist.get_world_size(ctx.group)
# +        flat = pad(gradient.reshape(-1), (0, size * len(ctx.shard) - gradient.numel()))
# +        return flat.chunk(size)[dist.get_rank(ctx.group)].clone(), None, None

# %% sum_over_ranks of="right_returns_it"
"""Wrong: the sum over ranks."""

# -        return mean_slice(gradient, ctx.shard, ctx.group), None, None
# +        return mean_slice(gradient, ctx.shard, ctx.group) * dist.get_world_size(ctx.group), None, None

# %% uses_each_once of="right_returns_it"
"""Wrong: drops the second use, its output is another model's."""

# -    for number in uses:
# +    for number in dict.fromkeys(uses):
