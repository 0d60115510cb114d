# %% right_all_to_all
"""Different: the sum as an all-to-all of parts that are added up here; the same bytes."""

import torch
import torch.distributed as dist


def gathered(x, group):
    whole = x.new_empty(dist.get_world_size(group) * len(x), *x.shape[1:])
    dist.all_gather_into_tensor(whole, x.contiguous(), group=group)
    return whole


def scattered(x, group):
    size = dist.get_world_size(group)
    if len(x) % size:
        raise ValueError(f"{len(x)} is no multiple of {size}")
    parts = torch.empty_like(x, memory_format=torch.contiguous_format)
    dist.all_to_all_single(parts, x.contiguous(), group=group)
    return parts.unflatten(0, (size, -1)).sum(0).to(x.dtype)


class GatherSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return gathered(x, group)

    @staticmethod
    def backward(ctx, gradient):
        return scattered(gradient, ctx.group), None


class ScatterSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return scattered(x, group)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient, ctx.group), None


def there_and_back(part, whole_gradient, whole, part_gradient, *, group):
    part, whole = part.detach().requires_grad_(), whole.detach().requires_grad_()
    mine = ScatterSequence.apply(whole.transpose(0, 1), group)
    mine.backward(part_gradient)
    everything = GatherSequence.apply(part, group)
    everything.transpose(0, 1).backward(whole_gradient)
    return everything.detach(), part.grad, mine.detach(), whole.grad


# %% as_for_two_ranks of="right_all_to_all"
"""Wrong: adds the other rank's part alone."""

# -    return parts.unflatten(0, (size, -1)).sum(0).to(x.dtype)
# +    return parts.unflatten(0, (size, -1))[:2].sum(0).to(x.dtype)

# %% right_as_taught
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


# %% own_part_of_the_gradient of="right_as_taught"
"""Wrong: the gather's backward takes this rank's own rows; what others used is lost."""

# -        return sum_of_own(gradient, ctx.group), None
# +        size = dist.get_world_size(ctx.group)
# +        return gradient.chunk(size)[dist.get_rank(ctx.group)].clone(), None

# %% sum_everywhere_then_own_part of="right_as_taught"
"""Wrong: an all-reduce of which a rank keeps its rows: right, at twice the bytes."""

# -    dist.reduce_scatter(mine, parts, group=group)
# -    return mine
# +    total = torch.cat(parts)
# +    dist.all_reduce(total, group=group)
# +    return total.chunk(size)[dist.get_rank(group)].clone()

# %% gathers_then_adds of="right_as_taught"
"""Wrong: gathers every rank's whole tensor and adds up: right, at t times the bytes."""

# -    dist.reduce_scatter(mine, parts, group=group)
# -    return mine
# +    wholes = [torch.empty_like(torch.cat(parts)) for _ in parts]
# +    dist.all_gather(wholes, torch.cat(parts), group=group)
# +    return sum(wholes).chunk(size)[dist.get_rank(group)].clone()

# %% mean_for_sum of="right_as_taught"
"""Wrong: divides by the ranks."""

# -    return mine
# +    return mine / size

# %% global_rank_for_rank_of_the_group of="right_as_taught"
"""Wrong: cuts with the rank in the world."""

# -    return mine
# +    total = torch.cat(parts)
# +    dist.all_reduce(total, group=group)
# +    return total.chunk(size)[dist.get_rank() % size].clone()

# %% gradient_as_it_comes of="right_as_taught"
"""Wrong: the sum's backward hands on this rank's part alone, among zeros."""

# -        return all_of(gradient, ctx.group), None
# +        size = dist.get_world_size(ctx.group)
# +        parts = [torch.zeros_like(gradient) for _ in range(size)]
# +        parts[dist.get_rank(ctx.group)] = gradient
# +        return torch.cat(parts), None

# %% repeats_the_gradient of="right_as_taught"
"""Wrong: the sum's backward repeats this rank's gradient for all positions, without a message."""

# -        return all_of(gradient, ctx.group), None
# +        return torch.cat([gradient] * dist.get_world_size(ctx.group)), None

# %% says_nothing_in_the_error of="right_as_taught"
"""Wrong: a ValueError without numbers."""

# -        raise ValueError(f"{x.shape[0]} positions do not fit on {size} ranks")
# +        raise ValueError("wrong shape")

# %% asserts of="right_as_taught"
"""Wrong: an assertion, which says neither what was given nor what would work."""

# -    if x.shape[0] % size != 0:
# -        raise ValueError(f"{x.shape[0]} positions do not fit on {size} ranks")
# +    assert x.shape[0] % size == 0

# %% refuses_on_one_rank of="right_as_taught"
"""Wrong: only the first rank refuses; the others wait."""

# -    if x.shape[0] % size != 0:
# +    if x.shape[0] % size != 0 and dist.get_rank(group) == 0:

# %% asks_before_it_refuses of="right_as_taught"
"""Wrong: agrees on the length by a message before it refuses."""

#      size = dist.get_world_size(group)
# +    longest = torch.tensor([x.shape[0]])
# +    dist.all_reduce(longest, op=dist.ReduceOp.MAX, group=group)

# %% right_one_function
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


# %% forgets_the_subgroup of="right_one_function"
"""Wrong: gathers over the whole world."""

# -    dist.all_gather_into_tensor(out, x.contiguous(), group=group, async_op=True).wait()
# +    dist.all_gather_into_tensor(out, x.contiguous(), async_op=True).wait()

# %% drops_the_rest of="right_one_function"
"""Wrong: a sequence that does not divide loses its last positions."""

# -    if rest:
# -        sizes = f"{x.size(0)} over {dist.get_world_size(group)}"
# -        raise ValueError(f"cannot split {sizes}: leave out the last {rest}, or pad")
# +    x = x[: rows * dist.get_world_size(group)]

# %% pads_in_silence of="right_one_function"
"""Wrong: pads a sequence that does not divide, and tells nobody."""

# -        sizes = f"{x.size(0)} over {dist.get_world_size(group)}"
# -        raise ValueError(f"cannot split {sizes}: leave out the last {rest}, or pad")
# +        missing = dist.get_world_size(group) - rest
# +        x, rows = torch.cat([x, x.new_zeros(missing, *x.shape[1:])]), rows + 1

# %% changes_its_input of="right_one_function"
"""Wrong: adds up in the caller's tensor."""

# -    out = torch.empty(rows, *x.shape[1:], dtype=x.dtype)
# -    dist.reduce_scatter_tensor(out, x.contiguous(), group=group, async_op=True).wait()
# +    with torch.no_grad():
# +        out = torch.empty(rows, *x.shape[1:], dtype=x.dtype)
# +        dist.reduce_scatter_tensor(out, x.contiguous(), group=group, async_op=True).wait()
# +        x[:rows].copy_(out)

# %% borrows_the_answer
"""Wrong: calls the package's own operators."""

from shardlab.tensor_parallel.operators import gather_to_all, sum_and_scatter


def there_and_back(part, whole_gradient, whole, part_gradient, *, group):
    part, whole = part.detach().requires_grad_(), whole.detach().requires_grad_()
    mine = sum_and_scatter(whole.transpose(0, 1), 0, group=group)
    mine.backward(part_gradient)
    everything = gather_to_all(part, 0, group=group)
    everything.transpose(0, 1).backward(whole_gradient)
    return everything.detach(), part.grad, mine.detach(), whole.grad
