# %% right_by_hand
"""Different: no operators: each layer's backward written out, messages between its lines, one graph for the norm."""

import torch
import torch.distributed as dist
from torch.nn.functional import gelu, layer_norm


def gathered(x, group):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x.contiguous(), group=group)
    return torch.cat(parts)


def scattered(x, group):
    parts = [part.contiguous() for part in x.chunk(dist.get_world_size(group))]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts, group=group)
    return mine


def with_graph(*tensors):
    return [tensor.clone().requires_grad_() for tensor in tensors]


def block_step(x, layers, gradient, *, group):
    tape, y = [], x
    for gain, shift, columns, rows in layers:
        whole = gathered(layer_norm(y, gain.shape, gain, shift), group)
        before = whole @ columns
        tape.append((y, whole, before))
        y = y + scattered(gelu(before) @ rows, group)
    found = []
    for gain, shift, columns, rows in reversed(layers):
        entered, whole, before = tape.pop()
        upstream = gathered(gradient, group).flatten(0, 1)
        (before,) = with_graph(before)
        inner = gelu(before)
        inner.backward((upstream @ rows.t()).view_as(inner))
        of_rows = inner.detach().flatten(0, 1).t() @ upstream
        of_columns = whole.flatten(0, 1).t() @ before.grad.flatten(0, 1)
        leaves = with_graph(entered, gain, shift)
        layer_norm(leaves[0], gain.shape, *leaves[1:]).backward(scattered(before.grad @ columns.t(), group))
        gradient = gradient + leaves[0].grad
        for weight in leaves[1:]:
            dist.all_reduce(weight.grad, group=group)
        found.insert(0, [leaves[1].grad, leaves[2].grad, of_columns, of_rows])
    return y, gradient, found


# %% sums_the_columns of="right_by_hand"
"""Wrong: adds up the gradients of a split matrix, too."""

#              dist.all_reduce(weight.grad, group=group)
# +        dist.all_reduce(of_columns, group=group)

# %% shift_forgotten of="right_by_hand"
"""Wrong: sums gain's gradient and forgets shift's."""

# -        for weight in leaves[1:]:
# +        for weight in leaves[1:2]:

# %% norms_over_the_world of="right_by_hand"
"""Wrong: sums the norms' gradients over the whole world, of which half never calls."""

# -            dist.all_reduce(weight.grad, group=group)
# +            dist.all_reduce(weight.grad)

# %% relu_for_gelu of="right_by_hand"
"""Wrong: another nonlinearity."""

# -        y = y + scattered(gelu(before) @ rows, group)
# +        y = y + scattered(torch.relu(before) @ rows, group)

# -        inner = gelu(before)
# +        inner = torch.relu(before)

# %% gathers_the_output of="right_by_hand"
"""Wrong: returns all positions."""

# -    return y, gradient, found
# +    return gathered(y, group), gradient, found

# %% right_hooks
"""Different: the norm written out, its gradients summed in hooks on the leaves, one message for both."""

import torch
import torch.distributed as dist
from torch.nn.functional import gelu


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        whole = x.new_empty(dist.get_world_size(group) * len(x), *x.shape[1:])
        dist.all_gather_into_tensor(whole, x.contiguous(), group=group)
        return whole

    @staticmethod
    def backward(ctx, gradient):
        part = gradient.new_empty(len(gradient) // dist.get_world_size(ctx.group), *gradient.shape[1:])
        dist.reduce_scatter_tensor(part, gradient.contiguous(), group=ctx.group)
        return part, None


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        part = x.new_empty(len(x) // dist.get_world_size(group), *x.shape[1:])
        dist.reduce_scatter_tensor(part, x.contiguous(), group=group)
        return part

    @staticmethod
    def backward(ctx, gradient):
        whole = gradient.new_empty(dist.get_world_size(ctx.group) * len(gradient), *gradient.shape[1:])
        dist.all_gather_into_tensor(whole, gradient.contiguous(), group=ctx.group)
        return whole, None


def block_step(x, layers, gradient, *, group):
    y = x = x.detach().clone().requires_grad_()
    layers = [[weight.detach().clone().requires_grad_() for weight in layer] for layer in layers]
    for gain, shift, columns, rows in layers:
        normed = torch.nn.functional.layer_norm(y, y.shape[-1:]) * gain + shift
        y = y + Scatter.apply(gelu(Gather.apply(normed, group) @ columns) @ rows, group)
    y.backward(gradient)
    norms = torch.cat([weight.grad for layer in layers for weight in layer[:2]])
    dist.all_reduce(norms, group=group)
    summed = iter(norms.split(x.shape[-1]))
    gradients = [[next(summed).clone(), next(summed).clone(), layer[2].grad, layer[3].grad] for layer in layers]
    return y.detach(), x.grad, gradients


# %% partial_norms of="right_hooks"
"""Wrong: leaves every rank with the norm gradients of its own positions."""

# -    dist.all_reduce(norms, group=group)

# %% mean_of_the_norms of="right_hooks"
"""Wrong: averages the norms' gradients, as over replicas."""

#      dist.all_reduce(norms, group=group)
# +    norms /= dist.get_world_size(group)

# %% norm_on_everything of="right_hooks"
"""Wrong: gathers first and norms everything on every rank: right, the same bytes, and nothing is split."""

# -        normed = torch.nn.functional.layer_norm(y, y.shape[-1:]) * gain + shift
# -        y = y + Scatter.apply(gelu(Gather.apply(normed, group) @ columns) @ rows, group)
# +        whole = Gather.apply(y, group)
# +        normed = torch.nn.functional.layer_norm(whole, gain.shape, gain, shift)
# +        y = y + Scatter.apply(gelu(normed @ columns) @ rows, group)

# %% all_reduce_then_own of="right_hooks"
"""Wrong: sums the output on every rank and keeps its rows: right, with more bytes."""

# -        part = x.new_empty(len(x) // dist.get_world_size(group), *x.shape[1:])
# -        dist.reduce_scatter_tensor(part, x.contiguous(), group=group)
# -        return part
# +        total = x.clone()
# +        dist.all_reduce(total, group=group)
# +        return total.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()

# %% gather_without_sum of="right_hooks"
"""Wrong: the gather's backward keeps this rank's rows of its own gradient."""

# -        part = gradient.new_empty(len(gradient) // dist.get_world_size(ctx.group), *gradient.shape[1:])
# -        dist.reduce_scatter_tensor(part, gradient.contiguous(), group=ctx.group)
# -        return part, None
# +        return gradient.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)].clone(), None

# %% residual_everywhere of="right_hooks"
"""Wrong: adds the residual on every rank before the sum: t times."""

# -        y = y + Scatter.apply(gelu(Gather.apply(normed, group) @ columns) @ rows, group)
# +        y = Scatter.apply(Gather.apply(y, group) + gelu(Gather.apply(normed, group) @ columns) @ rows, group)

# %% no_residual of="right_hooks"
"""Wrong: forgets the residual."""

# -        y = y + Scatter.apply(gelu(Gather.apply(normed, group) @ columns) @ rows, group)
# +        y = Scatter.apply(gelu(Gather.apply(normed, group) @ columns) @ rows, group)

# %% own_positions_alone of="right_hooks"
"""Wrong: sends nothing: its columns and rows on its own positions."""

# -        y = y + Scatter.apply(gelu(Gather.apply(normed, group) @ columns) @ rows, group)
# +        y = y + gelu(normed @ columns) @ rows
