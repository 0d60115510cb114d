# %% right_by_hand
"""Different: the two pairs written out, without autograd."""

import torch
import torch.distributed as dist


def added_up(x, transposed, group):
    total = (x.T if transposed else x).clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return (total.T if transposed else total).contiguous()


def f_both_ways(x, gradient, transposed, *, group):
    return x + x, gradient + added_up(gradient, transposed, group)


def g_both_ways(x, gradient, transposed, *, group):
    return x + added_up(x, transposed, group), gradient + gradient


# %% right_contiguous
"""Different: a contiguous copy of a copy, and g is f's mirror."""

import torch
import torch.distributed as dist


def both_ways(operator, x, gradient, transposed, group):
    leaf = x.clone().requires_grad_()
    x = leaf.T if transposed else leaf
    y = x + operator.apply(x, group)
    y = y.T if transposed else y
    y.backward(gradient)
    return y.detach(), leaf.grad


class ToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


class SumOfAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        total = x.contiguous().clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def f_both_ways(x, gradient, transposed, *, group):
    return both_ways(ToAll, x, gradient, transposed, group)


def g_both_ways(x, gradient, transposed, *, group):
    return both_ways(SumOfAll, x, gradient, transposed, group)


# %% both_send_both_ways of="right_contiguous"
"""Wrong: f all-reduces in the forward as well."""

# -        return x.clone()
# +        total = x.contiguous().clone()
# +        dist.all_reduce(total, group=group)
# +        return total

# %% g_adds_the_gradient_up of="right_contiguous"
"""Wrong: g all-reduces in the backward as well: gradients times t."""

#      def forward(ctx, x, group):
# +        ctx.group = group
#          total = x.contiguous().clone()

# -        return gradient, None
# +        total = gradient.contiguous().clone()
# +        dist.all_reduce(total, group=ctx.group)
# +        return total, None

# %% f_sends_nothing of="right_contiguous"
"""Wrong: f does nothing in either direction."""

# -        total = gradient.contiguous().clone()
# -        dist.all_reduce(total, group=ctx.group)
# -        return total, None
# +        return gradient.clone(), None

# %% unreduced of="right_contiguous"
"""Wrong: Megatron's `_reduce`: adds up a contiguous copy, and returns the tensor that it was copied from."""

# -        total = gradient.contiguous().clone()
# -        dist.all_reduce(total, group=ctx.group)
# -        return total, None
# +        dist.all_reduce(gradient.contiguous(), group=ctx.group)
# +        return gradient, None

# %% memory_order of="right_contiguous"
"""Wrong: a clone keeps the order of memory, so ranks add up different places."""

# -        total = gradient.contiguous().clone()
# +        total = gradient.clone()

# %% g_in_memory_order of="right_contiguous"
"""Wrong: the same in g's forward."""

# -        total = x.contiguous().clone()
# +        total = x.clone()

# %% in_place of="right_contiguous"
"""Wrong: f adds up in the gradient that it is given, which others still need."""

# -        total = gradient.contiguous().clone()
# +        total = gradient.contiguous()

# %% g_in_place of="right_contiguous"
"""Wrong: g adds up in its input."""

# -        total = x.contiguous().clone()
# +        total = x.contiguous()

# %% mean of="right_contiguous"
"""Wrong: f takes the mean of the gradients."""

# -        return total, None
# +        return total / dist.get_world_size(ctx.group), None

# %% swapped of="right_contiguous"
"""Wrong: f and g exchanged."""

# -class ToAll(torch.autograd.Function):
# +class Sum(torch.autograd.Function):

# -class SumOfAll(torch.autograd.Function):
# +class ToAll(torch.autograd.Function):

# +
# +SumOfAll = Sum
# +
#
#  def f_both_ways(x, gradient, transposed, *, group):

# %% forgets_the_group of="right_contiguous"
"""Wrong: f adds up over the world."""

# -        dist.all_reduce(total, group=ctx.group)
# +        dist.all_reduce(total)

# %% g_forgets_the_group of="right_contiguous"
"""Wrong: g adds up over the world."""

# -        dist.all_reduce(total, group=group)
# +        dist.all_reduce(total)

# %% gathers of="right_contiguous"
"""Wrong: gathers every rank's tensor and adds up itself."""

# -        total = x.contiguous().clone()
# -        dist.all_reduce(total, group=group)
# -        return total
# +        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(group))]
# +        dist.all_gather(parts, x.contiguous(), group=group)
# +        return torch.stack(parts).sum(0)

# %% twice of="right_contiguous"
"""Wrong: adds up twice and halves."""

# -        return total, None
# +        dist.all_reduce(total, group=ctx.group)
# +        return total / dist.get_world_size(ctx.group), None

# %% through_float64 of="right_contiguous"
"""Wrong: sends eight bytes for four, or for two."""

# -        total = gradient.contiguous().clone()
# +        total = gradient.contiguous().double().clone()

# %% two_ranks of="right_contiguous"
"""Wrong: right for two ranks alone: twice the mean."""

# -        return total
# +        return 2 * total / dist.get_world_size(group)

# %% right_two_halves
"""Different: an all-reduce as a reduce-scatter and an all-gather of a padded vector."""

import torch
import torch.distributed as dist


def both_ways(operator, x, gradient, transposed, group):
    leaf = x.clone().requires_grad_()
    x = leaf.T if transposed else leaf
    y = x + operator.apply(x, group)
    y = y.T if transposed else y
    y.backward(gradient)
    return y.detach(), leaf.grad


def total_of(x, group):
    size = dist.get_world_size(group)
    flat = torch.nn.functional.pad(x.reshape(-1), (0, -x.numel() % size))
    mine = flat.new_empty(flat.numel() // size)
    dist.reduce_scatter_single(mine, flat.clone(), group=group)
    whole = torch.empty_like(flat)
    dist.all_gather_single(whole, mine, group=group)
    return whole[: x.numel()].view(x.shape)


class ToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, *gradients):
        return total_of(gradients[0], ctx.group), None


class SumOfAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return total_of(x, group)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients[0].clone(), None


def f_both_ways(x, gradient, transposed, *, group):
    return both_ways(ToAll, x, gradient, transposed, group)


def g_both_ways(x, gradient, transposed, *, group):
    return both_ways(SumOfAll, x, gradient, transposed, group)


# %% librarys_own
"""Wrong: torch's differentiable all-reduce for g, which adds the gradient up as well."""

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_reduce


def both_ways(operator, x, gradient, transposed, group):
    leaf = x.clone().requires_grad_()
    x = leaf.T if transposed else leaf
    y = x + operator(x, group)
    y = y.T if transposed else y
    y.backward(gradient)
    return y.detach(), leaf.grad


class ToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None


def f_both_ways(x, gradient, transposed, *, group):
    return both_ways(ToAll.apply, x, gradient, transposed, group)


def g_both_ways(x, gradient, transposed, *, group):
    return both_ways(lambda x, group: all_reduce(x.contiguous(), group=group), x, gradient, transposed, group)
