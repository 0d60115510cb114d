# %% right_two_lines
"""Different: the sum first, the bias in a line of its own."""

import torch
from shardlab.tensor_parallel import copy_to_tp, reduce_from_tp


def mlp(x, up, up_bias, down, down_bias, *, group):
    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
    y = y + down_bias
    return y


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, up, up_bias, down, down_bias)]
    y = mlp(*leaves, group=group)
    y.backward(gradient)
    return y.detach(), *(leaf.grad for leaf in leaves)


# %% bias_on_every_rank of="right_two_lines"
"""Wrong: down_bias before the sum: added t times (MinivLLM issue 80)."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# -    y = y + down_bias
# +    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down + down_bias, group=group)

# %% bias_on_the_first_rank of="right_two_lines"
"""Wrong: down_bias before the sum on one rank: right forward, and the other copies never learn."""

#  import torch
# +import torch.distributed as dist

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# -    y = y + down_bias
# +    part = torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down
# +    y = reduce_from_tp(part + down_bias * (dist.get_rank(group) == 0), group=group)

# %% bias_divided of="right_two_lines"
"""Wrong: adds a t-th of down_bias on each rank: right forward, a t-th of its gradient."""

#  import torch
# +import torch.distributed as dist

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# -    y = y + down_bias
# +    part = torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down
# +    y = reduce_from_tp(part + down_bias / dist.get_world_size(group), group=group)

# %% no_f of="right_two_lines"
"""Wrong: nothing adds up the gradient of x."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = reduce_from_tp(torch.relu(x @ up + up_bias) @ down, group=group)

# %% no_g of="right_two_lines"
"""Wrong: returns a partial sum."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down

# %% relu_after_the_sum of="right_two_lines"
"""Wrong: the nonlinearity on the output."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = torch.relu(reduce_from_tp((copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group))

# %% sums_the_inner of="right_two_lines"
"""Wrong: adds up the inner activations, which are parts of one, not parts of a sum."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = reduce_from_tp(reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias), group=group) @ down, group=group)

# %% forgets_the_subgroup of="right_two_lines"
"""Wrong: adds up over the world."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=None)

# %% every_gradient_twice of="right_two_lines"
"""Wrong: f on the way out as well: the gradient of the output is added up over ranks that all have it."""

# -    y = y + down_bias
# +    y = copy_to_tp(y, group=group) + down_bias

# %% f_behind_the_columns of="right_two_lines"
"""Wrong: f behind the first matrix: adds up the gradient of another rank's columns."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=group) @ up + up_bias) @ down, group=group)
# +    y = reduce_from_tp(torch.relu(copy_to_tp(x @ up, group=group) + up_bias) @ down, group=group)

# %% right_by_hand
"""Different: the backward by hand."""

import torch
import torch.distributed as dist


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, up, up_bias, down, down_bias, group):
        scores = x @ up + up_bias
        ctx.kept, ctx.group = (x, up, scores, down), group
        y = scores.clamp(min=0) @ down
        dist.all_reduce(y, group=group)
        return y + down_bias

    @staticmethod
    def backward(ctx, gradient):
        (x, up, scores, down), group = ctx.kept, ctx.group
        d_inner = (gradient @ down.T) * (scores > 0)
        d_x = d_inner @ up.T
        dist.all_reduce(d_x, group=group)
        d_down = scores.clamp(min=0).T @ gradient
        return d_x, x.T @ d_inner, d_inner.sum(0), d_down, gradient.sum(0), None


def mlp(x, up, up_bias, down, down_bias, *, group):
    return Both.apply(x, up, up_bias, down, down_bias, group)


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, up, up_bias, down, down_bias)]
    y = mlp(*leaves, group=group)
    y.backward(gradient)
    return y.detach(), *(leaf.grad for leaf in leaves)


# %% adds_everything_up of="right_by_hand"
"""Wrong: all-reduces the gradients of the parameters too."""

# -        return d_x, x.T @ d_inner, d_inner.sum(0), d_down, gradient.sum(0), None
# +        d_bias = gradient.sum(0)
# +        dist.all_reduce(d_bias, group=group)
# +        return d_x, x.T @ d_inner, d_inner.sum(0), d_down, d_bias, None

# %% two_ranks_alone of="right_by_hand"
"""Wrong: right for two ranks: twice the mean of the gradient."""

#          dist.all_reduce(d_x, group=group)
# +        d_x *= 2 / dist.get_world_size(group)

# %% nothing_split of="right_by_hand"
"""Wrong: gathers both matrices and computes everything on every rank."""

#  import torch.distributed as dist
# +
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

#      def forward(ctx, x, up, up_bias, down, down_bias, group):
# +        up_T, ctx.mine = whole(up.T.contiguous(), group)
# +        up, up_bias, down = up_T.T, whole(up_bias, group)[0], whole(down, group)[0]

# -        dist.all_reduce(y, group=group)

# -        dist.all_reduce(d_x, group=group)
# +        mine = ctx.mine

# -        return d_x, x.T @ d_inner, d_inner.sum(0), d_down, gradient.sum(0), None
# +        return d_x, (x.T @ d_inner)[:, mine], d_inner.sum(0)[mine], d_down[mine], gradient.sum(0), None

# %% changes_x of="right_by_hand"
"""Wrong: writes the gradient of x into x, which the gradient of up still needs."""

# -        d_x = d_inner @ up.T
# +        d_x = x.data.copy_(d_inner @ up.T)

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


def mlp(x, up, up_bias, down, down_bias, *, group):
    inner = linear(Entry.apply(x, group), up.T, up_bias).relu()
    return Exit.apply(linear(inner, down.T), group) + down_bias


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, up, up_bias, down, down_bias)]
    y = mlp(*leaves, group=group)
    y.backward(gradient)
    return y.detach(), *(leaf.grad for leaf in leaves)
