# %% right_a_loss
"""Different: a loss whose gradient is the one given."""

import torch
from shardlab.tensor_parallel import copy_to_tp, reduce_from_tp


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, up, up_bias, down, down_bias)]
    x, up, up_bias, down, down_bias = leaves
    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
    y = y + down_bias
    (y * gradient).sum().backward()
    return y.detach(), *(leaf.grad for leaf in leaves)


# %% bias_on_every_rank of="right_a_loss"
"""Wrong: down_bias before the sum: added t times (MinivLLM issue 80)."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# -    y = y + down_bias
# +    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down + down_bias, group=group)

# %% bias_on_the_first_rank of="right_a_loss"
"""Wrong: down_bias before the sum on one rank: right forward, and the other copies never learn."""

#  import torch
# +import torch.distributed as dist

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# -    y = y + down_bias
# +    part = torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down
# +    y = reduce_from_tp(part + down_bias * (dist.get_rank(group) == 0), group=group)

# %% bias_divided of="right_a_loss"
"""Wrong: adds a t-th of down_bias on each rank: right forward, a t-th of its gradient."""

#  import torch
# +import torch.distributed as dist

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# -    y = y + down_bias
# +    part = torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down
# +    y = reduce_from_tp(part + down_bias / dist.get_world_size(group), group=group)

# %% no_f of="right_a_loss"
"""Wrong: nothing adds up the gradient of x."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = reduce_from_tp(torch.relu(x @ up + up_bias) @ down, group=group)

# %% no_g of="right_a_loss"
"""Wrong: returns a partial sum."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down

# %% relu_after_the_sum of="right_a_loss"
"""Wrong: the nonlinearity on the output."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = torch.relu(reduce_from_tp((copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group))

# %% sums_the_inner of="right_a_loss"
"""Wrong: adds up the inner activations, which are parts of one, not parts of a sum."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = reduce_from_tp(reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias), group=group) @ down, group=group)

# %% forgets_the_subgroup of="right_a_loss"
"""Wrong: adds up over the world."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=None)

# %% every_gradient_twice of="right_a_loss"
"""Wrong: f on the way out as well: the gradient of the output is added up over ranks that all have it."""

# -    y = y + down_bias
# +    y = copy_to_tp(y, group=group) + down_bias

# %% f_behind_the_columns of="right_a_loss"
"""Wrong: f behind the first matrix: adds up the gradient of another rank's columns."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = reduce_from_tp(torch.relu(copy_to_tp(x @ up, group=group) + up_bias) @ down, group=group)

# %% right_by_hand
"""Different: the backward by hand."""

import torch.distributed as dist


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    scores = x @ up + up_bias
    inner = scores.clamp(min=0)
    y = inner @ down
    dist.all_reduce(y, group=group)
    y += down_bias
    d_inner = (gradient @ down.T) * (scores > 0)
    d_x = d_inner @ up.T
    dist.all_reduce(d_x, group=group)
    return y, d_x, x.T @ d_inner, d_inner.sum(0), inner.T @ gradient, gradient.sum(0)


# %% adds_everything_up of="right_by_hand"
"""Wrong: all-reduces the gradients of the parameters too."""

# -    return y, d_x, x.T @ d_inner, d_inner.sum(0), inner.T @ gradient, gradient.sum(0)
# +    d_bias = gradient.sum(0)
# +    dist.all_reduce(d_bias, group=group)
# +    return y, d_x, x.T @ d_inner, d_inner.sum(0), inner.T @ gradient, d_bias

# %% two_ranks_alone of="right_by_hand"
"""Wrong: right for two ranks: twice the mean of the gradient.

Not in sight: both groups in sight have two ranks; drawn ones have one and three.
"""

#      dist.all_reduce(d_x, group=group)
# +    d_x *= 2 / dist.get_world_size(group)

# %% nothing_split of="right_by_hand"
"""Wrong: gathers both matrices and computes everything on every rank."""

# +import torch
#  import torch.distributed as dist

# +
# +def whole(part, group):
# +    size = dist.get_world_size(group)
# +    lengths = torch.zeros(size, dtype=torch.long)
# +    lengths[dist.get_rank(group)] = len(part)
# +    dist.all_reduce(lengths, group=group)
# +    most = int(lengths.max())
# +    padded = torch.cat([part, part.new_zeros(most - len(part), *part.shape[1:])])
# +    parts = [torch.empty_like(padded) for _ in range(size)]
# +    dist.all_gather(parts, padded, group=group)
# +    place = int(lengths[: dist.get_rank(group)].sum())
# +    return torch.cat([one[:n] for one, n in zip(parts, lengths, strict=True)]), slice(place, place + len(part))
# +
#
#  def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
# +    up_T, mine = whole(up.T.contiguous(), group)
# +    up, up_bias, down = up_T.T, whole(up_bias, group)[0], whole(down, group)[0]

# -    dist.all_reduce(y, group=group)

# -    dist.all_reduce(d_x, group=group)
# -    return y, d_x, x.T @ d_inner, d_inner.sum(0), inner.T @ gradient, gradient.sum(0)
# +    return y, d_x, (x.T @ d_inner)[:, mine], d_inner.sum(0)[mine], (inner.T @ gradient)[mine], gradient.sum(0)

# %% changes_x of="right_by_hand"
"""Wrong: adds the gradient into the caller's x."""

# -    d_x = d_inner @ up.T
# +    d_up = x.T @ d_inner
# +    d_x = x.copy_(d_inner @ up.T)

# %% right_own_operators
"""Different: its own operators, and torch's linear layers."""

import torch
import torch.distributed as dist
from torch.nn.functional import linear


class Entry(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None


class Exit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, up, up_bias, down, down_bias)]
    x, up, up_bias, down, down_bias = leaves
    inner = linear(Entry.apply(x, group), up.T, up_bias).relu()
    y = Exit.apply(linear(inner, down.T), group) + down_bias
    return [y.detach(), *torch.autograd.grad(y, leaves, gradient)]
