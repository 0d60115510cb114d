# %% right_by_hand
"""Different: no autograd and no operators; the backward written out."""

import torch
import torch.distributed as dist


def hybrid_step(columns, rows, inputs, targets, *, tp_group, pp_group, dp_group):
    stage, last = dist.get_rank(pp_group), dist.get_world_size(pp_group) - 1
    x = inputs.clone()
    if stage > 0:
        dist.recv(x, group=pp_group, group_src=stage - 1)
    wide = (x @ columns).clamp(min=0)
    y = wide @ rows
    dist.all_reduce(y, group=tp_group)
    if stage == last:
        loss, gradient = (y - targets).square().mean(), 2 * (y - targets) / y.numel()
    else:
        dist.send(y, group=pp_group, group_dst=stage + 1)
        loss, gradient = None, torch.empty_like(y)
        dist.recv(gradient, group=pp_group, group_src=stage + 1)
    wide_gradient = (gradient @ rows.T) * (wide > 0)
    if stage > 0:
        x_gradient = wide_gradient @ columns.T
        dist.all_reduce(x_gradient, group=tp_group)
        dist.send(x_gradient, group=pp_group, group_dst=stage - 1)
    gradients = [x.T @ wide_gradient, wide.T @ gradient]
    for one in gradients:
        dist.all_reduce(one, group=dp_group)
    return loss, *(one / dist.get_world_size(dp_group) for one in gradients)


# %% right_one_all_reduce
"""Different: both gradients in one all-reduce; the loss as a number."""

import torch
import torch.distributed as dist
from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
from torch.nn.functional import mse_loss


def hybrid_step(columns, rows, inputs, targets, *, tp_group, pp_group, dp_group):
    stage, last = dist.get_rank(pp_group), dist.get_world_size(pp_group) - 1
    columns, rows = columns.clone().requires_grad_(), rows.clone().requires_grad_()
    x, loss = inputs.clone(), None
    if stage > 0:
        dist.recv(x, group=pp_group, group_src=stage - 1)
        x.requires_grad_()
    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
    if stage == last:
        loss = mse_loss(y, targets)
        loss.backward()
    else:
        dist.send(y.detach(), group=pp_group, group_dst=stage + 1)
        gradient = torch.empty_like(y)
        dist.recv(gradient, group=pp_group, group_src=stage + 1)
        y.backward(gradient)
    if stage > 0:
        dist.send(x.grad, group=pp_group, group_dst=stage - 1)
    both = torch.cat([columns.grad.flatten(), rows.grad.flatten()])
    dist.all_reduce(both, group=dp_group)
    both /= dist.get_world_size(dp_group)
    first, second = both.split([columns.numel(), rows.numel()])
    return loss and loss.item(), first.view_as(columns), second.view_as(rows)


# %% global_ranks of="right_one_all_reduce"
"""Wrong: takes ranks of the group for ranks of the world."""

# -        dist.recv(x, group=pp_group, group_src=stage - 1)
# +        dist.recv(x, group=pp_group, src=stage - 1)

# -        dist.send(y.detach(), group=pp_group, group_dst=stage + 1)
# +        dist.send(y.detach(), group=pp_group, dst=stage + 1)

# -        dist.recv(gradient, group=pp_group, group_src=stage + 1)
# +        dist.recv(gradient, group=pp_group, src=stage + 1)

# -        dist.send(x.grad, group=pp_group, group_dst=stage - 1)
# -    both = torch.cat([columns.grad.flatten(), rows.grad.flatten()])
# -    dist.all_reduce(both, group=dp_group)
# -    both /= dist.get_world_size(dp_group)
# -    first, second = both.split([columns.numel(), rows.numel()])
# -    return loss and loss.item(), first.view_as(columns), second.view_as(rows)
# +        dist.send(x.grad, group=pp_group, dst=stage - 1)
# +    for weight in (columns, rows):
# +        dist.all_reduce(weight.grad, group=dp_group)
# +        weight.grad /= dist.get_world_size(dp_group)
# +    return None if loss is None else loss.detach(), columns.grad, rows.grad

# %% sum_for_mean of="right_one_all_reduce"
"""Wrong: a sum over the replicas for their mean."""

# -    both = torch.cat([columns.grad.flatten(), rows.grad.flatten()])
# -    dist.all_reduce(both, group=dp_group)
# -    both /= dist.get_world_size(dp_group)
# -    first, second = both.split([columns.numel(), rows.numel()])
# -    return loss and loss.item(), first.view_as(columns), second.view_as(rows)
# +    for weight in (columns, rows):
# +        dist.all_reduce(weight.grad, group=dp_group)
# +    return None if loss is None else loss.detach(), columns.grad, rows.grad

# %% all_reduce_both_ways
"""Wrong: adds up the gradient of a sum again, t times too long."""

import torch
import torch.distributed as dist
from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
from torch.nn.functional import mse_loss


def hybrid_step(columns, rows, inputs, targets, *, tp_group, pp_group, dp_group):
    stage, last = dist.get_rank(pp_group), dist.get_world_size(pp_group) - 1
    columns, rows = columns.clone().requires_grad_(), rows.clone().requires_grad_()
    x, loss = inputs.clone(), None
    if stage > 0:
        dist.recv(x, group=pp_group, group_src=stage - 1)
        x.requires_grad_()
    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
    y = copy_to_tp(y, group=tp_group)
    if stage == last:
        loss = mse_loss(y, targets)
        loss.backward()
    else:
        dist.send(y.detach(), group=pp_group, group_dst=stage + 1)
        gradient = torch.empty_like(y)
        dist.recv(gradient, group=pp_group, group_src=stage + 1)
        y.backward(gradient)
    if stage > 0:
        dist.send(x.grad, group=pp_group, group_dst=stage - 1)
    for weight in (columns, rows):
        dist.all_reduce(weight.grad, group=dp_group)
        weight.grad /= dist.get_world_size(dp_group)
    return None if loss is None else loss.detach(), columns.grad, rows.grad


# %% detached_input of="all_reduce_both_ways"
"""Wrong: sends zeros back; the stages before learn nothing."""

# -    y = copy_to_tp(y, group=tp_group)

# -        dist.send(x.grad, group=pp_group, group_dst=stage - 1)
# +        dist.send(torch.zeros_like(x), group=pp_group, group_dst=stage - 1)

# %% divides_by_the_world of="all_reduce_both_ways"
"""Wrong: divides by all ranks."""

# -    y = copy_to_tp(y, group=tp_group)

# -        weight.grad /= dist.get_world_size(dp_group)
# +        weight.grad /= dist.get_world_size()

# %% divides_by_two of="all_reduce_both_ways"
"""Wrong: right for two replicas."""

# -    y = copy_to_tp(y, group=tp_group)

# -        weight.grad /= dist.get_world_size(dp_group)
# +        weight.grad /= 2

# %% dp_over_pp of="all_reduce_both_ways"
"""Wrong: averages gradients over the stages."""

# -    y = copy_to_tp(y, group=tp_group)

# -        dist.all_reduce(weight.grad, group=dp_group)
# +        dist.all_reduce(weight.grad, group=pp_group)

# %% dp_over_the_world of="all_reduce_both_ways"
"""Wrong: averages gradients over all ranks."""

# -    y = copy_to_tp(y, group=tp_group)

# -        dist.all_reduce(weight.grad, group=dp_group)
# -        weight.grad /= dist.get_world_size(dp_group)
# +        dist.all_reduce(weight.grad)
# +        weight.grad /= dist.get_world_size()

# %% dp_over_tp of="all_reduce_both_ways"
"""Wrong: averages gradients over the tensor-parallel group, whose ranks have other weights."""

# -    y = copy_to_tp(y, group=tp_group)

# -        dist.all_reduce(weight.grad, group=dp_group)
# -        weight.grad /= dist.get_world_size(dp_group)
# +        dist.all_reduce(weight.grad, group=tp_group)
# +        weight.grad /= dist.get_world_size(tp_group)

# %% forgets_f of="all_reduce_both_ways"
"""Wrong: the input's gradient is only this rank's part; the forward is right."""

# -from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
# +from shardlab.tensor_parallel.operators import reduce_from_tp

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -    y = copy_to_tp(y, group=tp_group)
# +    y = reduce_from_tp(torch.relu(x @ columns) @ rows, group=tp_group)

# %% forgets_g of="all_reduce_both_ways"
"""Wrong: each rank goes on with its part of the output."""

# -from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
# +from shardlab.tensor_parallel.operators import copy_to_tp

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -    y = copy_to_tp(y, group=tp_group)
# +    y = torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows

# %% gathers_the_weights of="all_reduce_both_ways"
"""Wrong: puts both matrices together on every rank; right, and nothing is split."""

# -from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -    y = copy_to_tp(y, group=tp_group)
# +    whole = []
# +    for weight, dim in ((columns, 1), (rows, 0)):
# +        parts = [torch.empty_like(weight) for _ in range(dist.get_world_size(tp_group))]
# +        dist.all_gather(parts, weight.detach(), group=tp_group)
# +        parts[dist.get_rank(tp_group)] = weight
# +        whole.append(torch.cat(parts, dim))
# +    y = torch.relu(x @ whole[0]) @ whole[1]

# %% into_its_input of="all_reduce_both_ways"
"""Wrong: receives into the caller's tensor."""

# -    x, loss = inputs.clone(), None
# +    x, loss = inputs, None

# -    y = copy_to_tp(y, group=tp_group)

# %% loss_on_every_rank of="all_reduce_both_ways"
"""Wrong: returns a loss in every stage."""

# -    y = copy_to_tp(y, group=tp_group)

# -    return None if loss is None else loss.detach(), columns.grad, rows.grad
# +    return torch.zeros((), dtype=y.dtype) if loss is None else loss.detach(), columns.grad, rows.grad

# %% no_dp of="all_reduce_both_ways"
"""Wrong: keeps the gradients of its own replica."""

# -    y = copy_to_tp(y, group=tp_group)

# -        dist.all_reduce(weight.grad, group=dp_group)
# -        weight.grad /= dist.get_world_size(dp_group)
# +        weight.grad.mul_(1)

# %% own_stage_only of="all_reduce_both_ways"
"""Wrong: no messages; every stage takes the inputs and the targets as its own."""

# -    if stage > 0:
# -        dist.recv(x, group=pp_group, group_src=stage - 1)
# -        x.requires_grad_()
# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -    y = copy_to_tp(y, group=tp_group)
# -    if stage == last:
# -        loss = mse_loss(y, targets)
# -        loss.backward()
# -    else:
# -        dist.send(y.detach(), group=pp_group, group_dst=stage + 1)
# -        gradient = torch.empty_like(y)
# -        dist.recv(gradient, group=pp_group, group_src=stage + 1)
# -        y.backward(gradient)
# -    if stage > 0:
# -        dist.send(x.grad, group=pp_group, group_dst=stage - 1)
# +    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# +    loss = mse_loss(y, targets)
# +    loss.backward()
# +    loss = loss if stage == last else None

# %% reduces_twice of="all_reduce_both_ways"
"""Wrong: the mean, and once more the mean: right, at twice the bytes."""

# -    y = copy_to_tp(y, group=tp_group)

#          weight.grad /= dist.get_world_size(dp_group)
# +        dist.all_reduce(weight.grad, group=dp_group)
# +        weight.grad /= dist.get_world_size(dp_group)

# %% relu_after_the_sum of="all_reduce_both_ways"
"""Wrong: the nonlinearity on the output instead of the cut activation."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -    y = copy_to_tp(y, group=tp_group)
# +    y = reduce_from_tp(copy_to_tp(x, group=tp_group) @ columns @ rows, group=tp_group).relu()

# %% sum_over_the_world of="all_reduce_both_ways"
"""Wrong: adds up the stage's outputs over all ranks."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -    y = copy_to_tp(y, group=tp_group)
# +    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=None)

# %% torchs_all_reduce of="all_reduce_both_ways"
"""Wrong: a plain all-reduce of a tensor that autograd follows; it is not in the graph of the input."""

# -from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
# +from shardlab.tensor_parallel.operators import copy_to_tp

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -    y = copy_to_tp(y, group=tp_group)
# +    y = torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows
# +    total = y.detach().clone()
# +    dist.all_reduce(total, group=tp_group)
# +    y = y * (total / y.detach())

# %% tp_over_dp of="all_reduce_both_ways"
"""Wrong: adds up the stage's outputs over the replicas."""

# -    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -    y = copy_to_tp(y, group=tp_group)
# +    y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=dp_group)
