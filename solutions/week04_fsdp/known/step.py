# %% right_by_hand
"""Different: the derivative of tanh by hand, from the outputs that were kept."""

import torch
import torch.distributed as dist
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


def zero3_step(shards, x, gradient, *, group):
    shape, values = torch.Size([x.shape[1]] * 2), [x]
    for shard in shards:
        values.append(torch.tanh(values[-1] @ gathered(shard, shape, group)))
    slices = [None] * len(shards)
    for number in reversed(range(len(shards))):
        inner = gradient * (1 - values[number + 1] ** 2)
        slices[number] = mean_slice(values[number].T @ inner, shards[number], group)
        gradient = inner @ gathered(shards[number], shape, group).T
    return values[-1], slices


# %% autograd_keeps_them of="right_by_hand"
"""Wrong: an autograd function gathers and reduces, and autograd saves every weight."""

# +
# +class Gather(torch.autograd.Function):
# +    @staticmethod
# +    def forward(ctx, shard, shape, group):
# +        ctx.shard, ctx.group = shard, group
# +        return gathered(shard, shape, group)
# +
# +    @staticmethod
# +    def backward(ctx, gradient):
# +        return mean_slice(gradient, ctx.shard, ctx.group), None, None
# +
#
#  def zero3_step(shards, x, gradient, *, group):
# -    shape, values = torch.Size([x.shape[1]] * 2), [x]
# -    for shard in shards:
# -        values.append(torch.tanh(values[-1] @ gathered(shard, shape, group)))
# -    slices = [None] * len(shards)
# -    for number in reversed(range(len(shards))):
# -        inner = gradient * (1 - values[number + 1] ** 2)
# -        slices[number] = mean_slice(values[number].T @ inner, shards[number], group)
# -        gradient = inner @ gathered(shards[number], shape, group).T
# -    return values[-1], slices
# +    leaves = [shard.clone().requires_grad_() for shard in shards]
# +    for leaf in leaves:
# +        x = torch.tanh(x @ Gather.apply(leaf, torch.Size([x.shape[1]] * 2), group))
# +    x.backward(gradient)
# +    return x.detach(), [leaf.grad for leaf in leaves]

# %% gathers_everything_first of="right_by_hand"
"""Wrong: gathers all units before the forward and keeps them, ZeRO-2's memory."""

# -    shape, values = torch.Size([x.shape[1]] * 2), [x]
# -    for shard in shards:
# -        values.append(torch.tanh(values[-1] @ gathered(shard, shape, group)))
# -    slices = [None] * len(shards)
# -    for number in reversed(range(len(shards))):
# -        inner = gradient * (1 - values[number + 1] ** 2)
# -        slices[number] = mean_slice(values[number].T @ inner, shards[number], group)
# -        gradient = inner @ gathered(shards[number], shape, group).T
# -    return values[-1], slices
# +    weights = [gathered(shard, torch.Size([x.shape[1]] * 2), group).requires_grad_() for shard in shards]
# +    for weight in weights:
# +        x = torch.tanh(x @ weight)
# +    x.backward(gradient)
# +    return x.detach(), [mean_slice(w.grad, shard, group) for w, shard in zip(weights, shards, strict=True)]

# %% gathers_everything_twice of="right_by_hand"
"""Wrong: as many bytes as it should, but all units whole at once, forward and backward."""

# -    shape, values = torch.Size([x.shape[1]] * 2), [x]
# -    for shard in shards:
# -        values.append(torch.tanh(values[-1] @ gathered(shard, shape, group)))
# -    slices = [None] * len(shards)
# -    for number in reversed(range(len(shards))):
# -        inner = gradient * (1 - values[number + 1] ** 2)
# -        slices[number] = mean_slice(values[number].T @ inner, shards[number], group)
# -        gradient = inner @ gathered(shards[number], shape, group).T
# -    return values[-1], slices
# +    weights = [gathered(shard, torch.Size([x.shape[1]] * 2), group) for shard in shards]
# +    with torch.no_grad():
# +        given = x
# +        for weight in weights:
# +            x = torch.tanh(x @ weight)
# +    output, x = x, given
# +    del weights, weight
# +    weights = [gathered(shard, torch.Size([x.shape[1]] * 2), group).requires_grad_() for shard in shards]
# +    for weight in weights:
# +        x = torch.tanh(x @ weight)
# +    x.backward(gradient)
# +    return output, [mean_slice(w.grad, shard, group) for w, shard in zip(weights, shards, strict=True)]

# %% one_large_gather of="right_by_hand"
"""Wrong: one gather of all units together, for each direction."""

# -    shape, values = torch.Size([x.shape[1]] * 2), [x]
# -    for shard in shards:
# -        values.append(torch.tanh(values[-1] @ gathered(shard, shape, group)))
# -    slices = [None] * len(shards)
# -    for number in reversed(range(len(shards))):
# -        inner = gradient * (1 - values[number + 1] ** 2)
# -        slices[number] = mean_slice(values[number].T @ inner, shards[number], group)
# -        gradient = inner @ gathered(shards[number], shape, group).T
# -    return values[-1], slices
# +    size, width, length = dist.get_world_size(group), x.shape[1], len(shards[0])
# +
# +    def everything():
# +        flat = torch.cat(list(shards))
# +        whole = flat.new_empty(size * len(flat))
# +        dist.all_gather_single(whole, flat, group=group)
# +        parts = whole.view(size, len(shards), length).transpose(0, 1).reshape(len(shards), -1)
# +        return [part[: width * width].view(width, width).clone() for part in parts]
# +
# +    output = x
# +    for weight in everything():
# +        output = torch.tanh(output @ weight)
# +    weights = [weight.requires_grad_() for weight in everything()]
# +    for weight in weights:
# +        x = torch.tanh(x @ weight)
# +    x.backward(gradient)
# +    return output, [mean_slice(w.grad, shard, group) for w, shard in zip(weights, shards, strict=True)]

# %% right_keeps_the_last
"""Different: the last unit, whose backward comes next, stays; one gather less."""

import torch
import torch.distributed as dist
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


def zero3_step(shards, x, gradient, *, group):
    shape, inputs = torch.Size([x.shape[1]] * 2), []
    with torch.no_grad():
        for shard in shards:
            inputs.append(x)
            weight = gathered(shard, shape, group)
            x = torch.tanh(x @ weight)
    output, slices = x, []
    for shard, given in zip(shards[::-1], inputs[::-1], strict=True):
        weight = gathered(shard, shape, group) if weight is None else weight
        x = given.detach().requires_grad_()
        weight.requires_grad_()
        torch.tanh(x @ weight).backward(gradient)
        slices.append(mean_slice(weight.grad, shard, group))
        gradient, weight = x.grad, None
    return output, slices[::-1]


# %% right_list_collectives
"""Different: lists of slices instead of one vector."""

import torch
import torch.distributed as dist
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


def zero3_step(shards, x, gradient, *, group):
    width, size = x.shape[1], dist.get_world_size(group)

    def whole(shard):
        parts = [torch.empty_like(shard) for _ in range(size)]
        dist.all_gather(parts, shard, group=group)
        return torch.cat(parts)[: width * width].reshape(width, width)

    inputs, slices = [], []
    with torch.no_grad():
        for shard in shards:
            inputs.append(x)
            x = torch.tanh(x @ whole(shard))
    output = x
    for number in range(len(shards) - 1, -1, -1):
        x = inputs[number].detach().requires_grad_()
        weight = whole(shards[number]).requires_grad_()
        torch.tanh(x @ weight).backward(gradient)
        flat = pad(weight.grad.flatten(), (0, size * len(shards[number]) - width * width))
        mine = torch.empty_like(shards[number])
        dist.reduce_scatter(mine, [part.clone() for part in flat.chunk(size)], group=group)
        slices.append(mine / size)
        gradient = x.grad
    return output, list(reversed(slices))


# %% right_prefetch
"""Different: gathers one unit ahead, both ways."""

import torch
import torch.distributed as dist
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


def zero3_step(shards, x, gradient, *, group):
    width, size = x.shape[1], dist.get_world_size(group)

    def start(shard):
        whole = shard.new_empty(size * len(shard))
        return whole, dist.all_gather_single(whole, shard, group=group, async_op=True)

    def weights(order):
        ahead = start(order[0])
        for following in [*order[1:], None]:
            whole, work = ahead
            ahead = start(following) if following is not None else None
            work.wait()
            yield whole[: width * width].view(width, width)

    inputs, slices = [], []
    with torch.no_grad():
        for weight in weights(shards):
            inputs.append(x)
            x = torch.tanh(x @ weight)
    output = x
    for shard, given, whole in zip(shards[::-1], inputs[::-1], weights(shards[::-1]), strict=True):
        x, weight = given.detach().requires_grad_(), whole.detach().requires_grad_()
        torch.tanh(x @ weight).backward(gradient)
        slices.insert(0, mean_slice(weight.grad, shard, group))
        gradient = x.grad
    return output, slices


# %% right_recompute
"""Different: the page's way, forward without autograd and each layer once more in the backward."""

import torch
import torch.distributed as dist
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


def zero3_step(shards, x, gradient, *, group):
    shape, inputs, slices = torch.Size([x.shape[1]] * 2), [], []
    with torch.no_grad():
        for shard in shards:
            inputs.append(x)
            x = torch.tanh(x @ gathered(shard, shape, group))
    output = x
    for shard, given in zip(reversed(shards), reversed(inputs), strict=True):
        leaf = given.detach().requires_grad_()
        weight = gathered(shard, shape, group).requires_grad_()
        torch.tanh(leaf @ weight).backward(gradient)
        slices.insert(0, mean_slice(weight.grad, shard, group))
        gradient = leaf.grad
        del weight
    return output, slices


# %% slices_in_backward_order
"""Wrong: the slices lie in the order of the backward."""

import torch
import torch.distributed as dist
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


def zero3_step(shards, x, gradient, *, group):
    shape, inputs, slices = torch.Size([x.shape[1]] * 2), [], []
    with torch.no_grad():
        for shard in shards:
            inputs.append(x)
            x = torch.tanh(x @ gathered(shard, shape, group))
    output = x
    for shard, given in zip(shards[::-1], inputs[::-1], strict=True):
        x = given.detach().requires_grad_()
        weight = gathered(shard, shape, group).requires_grad_()
        torch.tanh(x @ weight).backward(gradient)
        slices.append(mean_slice(weight.grad, shard, group))
        gradient = x.grad
        del weight
    return output, slices


# %% all_reduces_and_cuts of="slices_in_backward_order"
"""Wrong: an all-reduce where a reduce-scatter is enough, twice the bytes."""

# -        slices.append(mean_slice(weight.grad, shard, group))
# +        flat = pad(weight.grad.flatten(), (0, dist.get_world_size(group) * len(shard) - shape.numel()))
# +        dist.all_reduce(flat, group=group)
# +        mine = flat.chunk(dist.get_world_size(group))[dist.get_rank(group)]
# +        slices.insert(0, mine.clone() / dist.get_world_size(group))

# %% forgets_the_subgroup of="slices_in_backward_order"
"""Wrong: gathers and reduces over the world."""

# -            x = torch.tanh(x @ gathered(shard, shape, group))
# +            x = torch.tanh(x @ gathered(shard, shape, None))

# -        weight = gathered(shard, shape, group).requires_grad_()
# +        weight = gathered(shard, shape, None).requires_grad_()

# -        slices.append(mean_slice(weight.grad, shard, group))
# +        slices.insert(0, mean_slice(weight.grad, shard, None))

# %% holds_whole_gradients of="slices_in_backward_order"
"""Wrong: frees the weights, and keeps every whole gradient until the end."""

# -    shape, inputs, slices = torch.Size([x.shape[1]] * 2), [], []
# +    shape, inputs, gradients = torch.Size([x.shape[1]] * 2), [], []

# -        slices.append(mean_slice(weight.grad, shard, group))
# +        gradients.insert(0, weight.grad)

# -        del weight
# -    return output, slices
# +    return output, [mean_slice(whole, shard, group) for whole, shard in zip(gradients, shards, strict=True)]

# %% keeps_what_it_gathers of="slices_in_backward_order"
"""Wrong: gathers unit by unit in the right order, and never lets go of a weight."""

# -    shape, inputs, slices = torch.Size([x.shape[1]] * 2), [], []
# +    shape, inputs, slices, cache = torch.Size([x.shape[1]] * 2), [], [], []

# -            x = torch.tanh(x @ gathered(shard, shape, group))
# +            cache.append(gathered(shard, shape, group))
# +            x = torch.tanh(x @ cache[-1])

# -        slices.append(mean_slice(weight.grad, shard, group))
# +        slices.insert(0, mean_slice(weight.grad, shard, group))

# -        del weight

# %% loses_the_gradient_between_layers of="slices_in_backward_order"
"""Wrong: every layer gets the last layer's gradient."""

# -        slices.append(mean_slice(weight.grad, shard, group))
# -        gradient = x.grad
# +        slices.insert(0, mean_slice(weight.grad, shard, group))

# %% no_backward_for_the_first of="slices_in_backward_order"
"""Wrong: leaves the first unit out of the backward."""

# -    for shard, given in zip(shards[::-1], inputs[::-1], strict=True):
# +    for shard, given in zip(shards[:0:-1], inputs[:0:-1], strict=True):

# -        slices.append(mean_slice(weight.grad, shard, group))
# +        slices.insert(0, mean_slice(weight.grad, shard, group))

# %% own_gradient_only of="slices_in_backward_order"
"""Wrong: cuts its own gradient, and no rank hears of the others."""

# -        slices.append(mean_slice(weight.grad, shard, group))
# +        flat = pad(weight.grad.flatten(), (0, dist.get_world_size(group) * len(shard) - shape.numel()))
# +        slices.insert(0, flat.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone())

# %% returns_whole_gradients of="slices_in_backward_order"
"""Wrong: all-reduces the gradients and returns them whole."""

# -        slices.append(mean_slice(weight.grad, shard, group))
# +        dist.all_reduce(weight.grad, group=group)
# +        slices.insert(0, weight.grad.flatten() / dist.get_world_size(group))

# %% sum_for_mean of="slices_in_backward_order"
"""Wrong: the sum over ranks instead of the mean."""

# -        slices.append(mean_slice(weight.grad, shard, group))
# +        slices.insert(0, mean_slice(weight.grad, shard, group) * dist.get_world_size(group))
