# %% right_by_hand
"""Different: no autograd and no operators; the backward written out."""

import torch
import torch.distributed as dist


def hybrid_step(columns, rows, inputs, targets, num_microbatches, *, tp_group, pp_group, dp_group):
    stage, last = dist.get_rank(pp_group), dist.get_world_size(pp_group) - 1
    kept, loss, gradients = [], None, [torch.zeros_like(columns), torch.zeros_like(rows)]
    for part, target in zip(inputs.chunk(num_microbatches), targets.chunk(num_microbatches), strict=True):
        x = part.clone()
        if stage > 0:
            dist.recv(x, group=pp_group, group_src=stage - 1)
        wide = (x @ columns).clamp(min=0)
        y = wide @ rows
        dist.all_reduce(y, group=tp_group)
        if stage == last:
            loss = (loss or 0) + (y - target).square().mean() / num_microbatches
            y = 2 * (y - target) / y.numel() / num_microbatches
        else:
            dist.send(y, group=pp_group, group_dst=stage + 1)
        kept.append((x, wide, y))
    for x, wide, gradient in kept:
        if stage < last:
            dist.recv(gradient, group=pp_group, group_src=stage + 1)
        wide_gradient = (gradient @ rows.T) * (wide > 0)
        if stage > 0:
            x_gradient = wide_gradient @ columns.T
            dist.all_reduce(x_gradient, group=tp_group)
            dist.send(x_gradient, group=pp_group, group_dst=stage - 1)
        gradients[0] += x.T @ wide_gradient
        gradients[1] += wide.T @ gradient
    for one in gradients:
        dist.all_reduce(one, group=dp_group)
    return loss, *(one / dist.get_world_size(dp_group) for one in gradients)


# %% right_one_f_one_b
"""Different: 1F1B; both gradients in one all-reduce; the loss as a number."""

import torch
import torch.distributed as dist
from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
from torch.nn.functional import mse_loss


def hybrid_step(columns, rows, inputs, targets, num_microbatches, *, tp_group, pp_group, dp_group):
    stage, last = dist.get_rank(pp_group), dist.get_world_size(pp_group) - 1
    columns, rows = columns.clone().requires_grad_(), rows.clone().requires_grad_()
    held, sending, loss = [], [], 0.0

    def forward(number):
        x = inputs.chunk(num_microbatches)[number].clone()
        if stage > 0:
            dist.recv(x, group=pp_group, group_src=stage - 1)
            x.requires_grad_()
        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
        if stage == last:
            y = mse_loss(y, targets.chunk(num_microbatches)[number]) / num_microbatches
        else:
            sending.append(dist.isend(y.detach(), group=pp_group, group_dst=stage + 1))
        held.append((x, y))

    def backward():
        x, y = held.pop(0)
        gradient = None
        if stage < last:
            gradient = torch.empty_like(y)
            dist.recv(gradient, group=pp_group, group_src=stage + 1)
        y.backward(gradient)
        if stage > 0:
            sending.append(dist.isend(x.grad, group=pp_group, group_dst=stage - 1))
        return 0.0 if stage < last else y.item()

    warm = min(last - stage, num_microbatches)
    for number in range(num_microbatches + warm):
        if number < num_microbatches:
            forward(number)
        if number >= warm:
            loss += backward()
    for message in sending:
        message.wait()
    both = torch.cat([columns.grad.flatten(), rows.grad.flatten()])
    dist.all_reduce(both, group=dp_group)
    both /= dist.get_world_size(dp_group)
    first, second = both.split([columns.numel(), rows.numel()])
    return loss if stage == last else None, first.view_as(columns), second.view_as(rows)


# %% all_reduce_both_ways
"""Wrong: adds up the gradient of a sum again, t times too long."""

import torch
import torch.distributed as dist
from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
from torch.nn.functional import mse_loss


def hybrid_step(columns, rows, inputs, targets, num_microbatches, *, tp_group, pp_group, dp_group):
    stage, last = dist.get_rank(pp_group), dist.get_world_size(pp_group) - 1
    columns, rows = columns.clone().requires_grad_(), rows.clone().requires_grad_()
    kept = []
    for part, target in zip(inputs.chunk(num_microbatches), targets.chunk(num_microbatches), strict=True):
        x = part.clone()
        if stage > 0:
            dist.recv(x, group=pp_group, group_src=stage - 1)
            x.requires_grad_()
        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
        y = copy_to_tp(y, group=tp_group)
        if stage == last:
            y = mse_loss(y, target) / num_microbatches
        else:
            dist.send(y.detach(), group=pp_group, group_dst=stage + 1)
        kept.append((x, y))
    for x, y in kept:
        gradient = None
        if stage < last:
            gradient = torch.empty_like(y)
            dist.recv(gradient, group=pp_group, group_src=stage + 1)
        y.backward(gradient)
        if stage > 0:
            dist.send(x.grad, group=pp_group, group_dst=stage - 1)
    for weight in (columns, rows):
        dist.all_reduce(weight.grad, group=dp_group)
        weight.grad /= dist.get_world_size(dp_group)
    return sum(y.detach() for _, y in kept) if stage == last else None, columns.grad, rows.grad


# %% global_ranks of="all_reduce_both_ways"
"""Wrong: takes ranks of the group for ranks of the world."""

# -            dist.recv(x, group=pp_group, group_src=stage - 1)
# +            dist.recv(x, group=pp_group, src=stage - 1)

# -        y = copy_to_tp(y, group=tp_group)

# -            dist.send(y.detach(), group=pp_group, group_dst=stage + 1)
# +            dist.send(y.detach(), group=pp_group, dst=stage + 1)

# -            dist.recv(gradient, group=pp_group, group_src=stage + 1)
# +            dist.recv(gradient, group=pp_group, src=stage + 1)

# -            dist.send(x.grad, group=pp_group, group_dst=stage - 1)
# +            dist.send(x.grad, group=pp_group, dst=stage - 1)

# %% sum_for_mean of="all_reduce_both_ways"
"""Wrong: a sum over the replicas for their mean."""

# -        y = copy_to_tp(y, group=tp_group)

# -        weight.grad /= dist.get_world_size(dp_group)

# %% detached_input of="all_reduce_both_ways"
"""Wrong: sends zeros back; the stages before learn nothing."""

# -        y = copy_to_tp(y, group=tp_group)

# -            dist.send(x.grad, group=pp_group, group_dst=stage - 1)
# +            dist.send(torch.zeros_like(x), group=pp_group, group_dst=stage - 1)

# %% divides_by_the_world of="all_reduce_both_ways"
"""Wrong: divides by all ranks."""

# -        y = copy_to_tp(y, group=tp_group)

# -        weight.grad /= dist.get_world_size(dp_group)
# +        weight.grad /= dist.get_world_size()

# %% divides_by_two of="all_reduce_both_ways"
"""Wrong: right for two replicas."""

# -        y = copy_to_tp(y, group=tp_group)

# -        weight.grad /= dist.get_world_size(dp_group)
# +        weight.grad /= 2

# %% dp_over_pp of="all_reduce_both_ways"
"""Wrong: averages gradients over the stages."""

# -        y = copy_to_tp(y, group=tp_group)

# -        dist.all_reduce(weight.grad, group=dp_group)
# +        dist.all_reduce(weight.grad, group=pp_group)

# %% dp_over_the_world of="all_reduce_both_ways"
"""Wrong: averages gradients over all ranks."""

# -        y = copy_to_tp(y, group=tp_group)

# -        dist.all_reduce(weight.grad, group=dp_group)
# -        weight.grad /= dist.get_world_size(dp_group)
# +        dist.all_reduce(weight.grad)
# +        weight.grad /= dist.get_world_size()

# %% dp_over_tp of="all_reduce_both_ways"
"""Wrong: averages gradients over the tensor-parallel group, whose ranks have other weights."""

# -        y = copy_to_tp(y, group=tp_group)

# -        dist.all_reduce(weight.grad, group=dp_group)
# -        weight.grad /= dist.get_world_size(dp_group)
# +        dist.all_reduce(weight.grad, group=tp_group)
# +        weight.grad /= dist.get_world_size(tp_group)

# %% forgets_f of="all_reduce_both_ways"
"""Wrong: the input's gradient is only this rank's part; the forward is right."""

# -from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
# +from shardlab.tensor_parallel.operators import reduce_from_tp

# -        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -        y = copy_to_tp(y, group=tp_group)
# +        y = reduce_from_tp(torch.relu(x @ columns) @ rows, group=tp_group)

# %% forgets_g of="all_reduce_both_ways"
"""Wrong: each rank goes on with its part of the output."""

# -from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
# +from shardlab.tensor_parallel.operators import copy_to_tp

# -        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -        y = copy_to_tp(y, group=tp_group)
# +        y = torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows

# %% gathers_the_weights of="all_reduce_both_ways"
"""Wrong: puts both matrices together on every rank; right, and nothing is split."""

# -from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp

# -        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -        y = copy_to_tp(y, group=tp_group)
# +        whole = []
# +        for weight, dim in ((columns, 1), (rows, 0)):
# +            parts = [torch.empty_like(weight) for _ in range(dist.get_world_size(tp_group))]
# +            dist.all_gather(parts, weight.detach(), group=tp_group)
# +            parts[dist.get_rank(tp_group)] = weight
# +            whole.append(torch.cat(parts, dim))
# +        y = torch.relu(x @ whole[0]) @ whole[1]

# %% into_its_input of="all_reduce_both_ways"
"""Wrong: receives into the caller's tensor."""

# -        x = part.clone()
# +        x = part

# -        y = copy_to_tp(y, group=tp_group)

# %% loss_on_every_rank of="all_reduce_both_ways"
"""Wrong: returns a loss in every stage."""

# -        y = copy_to_tp(y, group=tp_group)

# -    return sum(y.detach() for _, y in kept) if stage == last else None, columns.grad, rows.grad
# +    return sum(y.detach().mean() for _, y in kept), columns.grad, rows.grad

# %% no_dp of="all_reduce_both_ways"
"""Wrong: keeps the gradients of its own replica."""

# -        y = copy_to_tp(y, group=tp_group)

# -        dist.all_reduce(weight.grad, group=dp_group)
# -        weight.grad /= dist.get_world_size(dp_group)
# +        weight.grad.mul_(1)

# %% own_stage_only of="all_reduce_both_ways"
"""Wrong: no messages; every stage takes the inputs and the targets as its own."""

# -        if stage > 0:
# -            dist.recv(x, group=pp_group, group_src=stage - 1)
# -            x.requires_grad_()

# -        y = copy_to_tp(y, group=tp_group)

# -        if stage == last:
# -            y = mse_loss(y, target) / num_microbatches
# -        else:
# -            dist.send(y.detach(), group=pp_group, group_dst=stage + 1)
# +        y = mse_loss(y, target) / num_microbatches

# -        if stage < last:
# -            gradient = torch.empty_like(y)
# -            dist.recv(gradient, group=pp_group, group_src=stage + 1)

# -        if stage > 0:
# -            dist.send(x.grad, group=pp_group, group_dst=stage - 1)

# %% reduces_twice of="all_reduce_both_ways"
"""Wrong: the mean, and once more the mean: right, at twice the bytes."""

# -        y = copy_to_tp(y, group=tp_group)

#          weight.grad /= dist.get_world_size(dp_group)
# +        dist.all_reduce(weight.grad, group=dp_group)
# +        weight.grad /= dist.get_world_size(dp_group)

# %% relu_after_the_sum of="all_reduce_both_ways"
"""Wrong: the nonlinearity on the output instead of the cut activation."""

# -        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -        y = copy_to_tp(y, group=tp_group)
# +        y = reduce_from_tp(copy_to_tp(x, group=tp_group) @ columns @ rows, group=tp_group).relu()

# %% sum_over_the_world of="all_reduce_both_ways"
"""Wrong: adds up the stage's outputs over all ranks."""

# -        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -        y = copy_to_tp(y, group=tp_group)
# +        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=None)

# %% torchs_all_reduce of="all_reduce_both_ways"
"""Wrong: a plain all-reduce of a tensor that autograd follows; it is not in the graph of the input."""

# -from shardlab.tensor_parallel.operators import copy_to_tp, reduce_from_tp
# +from shardlab.tensor_parallel.operators import copy_to_tp

# -        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -        y = copy_to_tp(y, group=tp_group)
# +        y = torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows
# +        total = y.detach().clone()
# +        dist.all_reduce(total, group=tp_group)
# +        y = y * (total / y.detach())

# %% tp_over_dp of="all_reduce_both_ways"
"""Wrong: adds up the stage's outputs over the replicas."""

# -        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
# -        y = copy_to_tp(y, group=tp_group)
# +        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=dp_group)

# %% one_at_a_time of="all_reduce_both_ways"
"""Wrong: one microbatch forward and back before the next: right numbers, and only one stage works at a time."""

# -        y = copy_to_tp(y, group=tp_group)

# -        kept.append((x, y))
# -    for x, y in kept:
# +        kept.append((x, y))

# %% all_reduce_per_microbatch of="all_reduce_both_ways"
"""Wrong: an all-reduce of the gradients after each microbatch, of everything summed so far."""

# -        y = copy_to_tp(y, group=tp_group)

# -            dist.send(x.grad, group=pp_group, group_dst=stage - 1)
# +            dist.send(x.grad, group=pp_group, group_dst=stage - 1)
# +        for weight in (columns, rows):
# +            dist.all_reduce(weight.grad.clone(), group=dp_group)

# %% sum_of_the_microbatches of="all_reduce_both_ways"
"""Wrong: sums the losses of the microbatches, so that everything is m times too large."""

# -        y = copy_to_tp(y, group=tp_group)

# -            y = mse_loss(y, target) / num_microbatches
# +            y = mse_loss(y, target)

# %% one_large_microbatch of="all_reduce_both_ways"
"""Wrong: ignores num_microbatches: the whole part at once; right, and nothing overlaps."""

# -    kept = []
# +    kept, num_microbatches = [], 1

# -        y = copy_to_tp(y, group=tp_group)

# %% last_microbatch_only of="all_reduce_both_ways"
"""Wrong: sets the gradients back for each microbatch."""

# -        y = copy_to_tp(y, group=tp_group)

# -        y.backward(gradient)
# +        columns.grad = rows.grad = None
# +        y.backward(gradient)
