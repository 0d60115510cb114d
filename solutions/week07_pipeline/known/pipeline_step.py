# %% right_all_forwards_first
"""Different: weights each loss by its rows, backward in the order of the forwards."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def pipeline_step(weight, microbatches, targets, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    weight, num_rows = weight.clone().requires_grad_(), sum(len(target) for target in targets)
    alive, total = [], 0.0
    for given in microbatches:
        x = given if rank == 0 else torch.empty_like(given)
        if rank > 0:
            dist.recv(x, group_src=rank - 1, group=group)
            x.requires_grad_()
        y = torch.tanh(x @ weight)
        alive.append((x, y))
        if rank < last:
            dist.send(y.detach(), group_dst=rank + 1, group=group)
    for (x, y), target in zip(alive, targets, strict=True):
        if rank == last:
            loss = mse_loss(y, target) * len(target) / num_rows
            loss.backward()
            total += loss.detach()
        else:
            gradient = torch.empty_like(y)
            dist.recv(gradient, group_src=rank + 1, group=group)
            y.backward(gradient)
        if rank > 0:
            dist.send(x.grad, group_dst=rank - 1, group=group)
    return (total if rank == last else None), weight.grad


# %% borrows_the_stages of="right_all_forwards_first"
"""Wrong: takes the package's own stages, which are not there while this is checked."""

#  import torch.distributed as dist
# +from shardlab.pipeline_parallel.execution import execute

# -    alive, total = [], 0.0
# +    alive, total, _ = [], 0.0, execute

# %% detaches_its_input of="right_all_forwards_first"
"""Wrong: sends back zeros, for the gradient of its input was never asked for."""

# -            dist.send(x.grad, group_dst=rank - 1, group=group)
# +            dist.send(torch.zeros_like(x), group_dst=rank - 1, group=group)

# %% divided_by_the_ranks of="right_all_forwards_first"
"""Wrong: divides by the number of ranks instead of microbatches."""

# -            loss = mse_loss(y, target) * len(target) / num_rows
# +            loss = mse_loss(y, target) / (last + 1)

# -            total += loss.detach()
# +            total += loss.detach() * (last + 1) * len(target) / num_rows

# %% divided_on_every_rank of="right_all_forwards_first"
"""Wrong: each rank divides the gradient once more on its way."""

# -            y.backward(gradient)
# +            y.backward(gradient * len(target) / num_rows)

# %% divides_on_the_last_rank_only of="right_all_forwards_first"
"""Wrong: the last rank divides its own weight's gradient at the end, what it sent on was not divided."""

# -            loss = mse_loss(y, target) * len(target) / num_rows
# +            loss = mse_loss(y, target)

# -            total += loss.detach()
# +            total += loss.detach() * len(target) / num_rows

#              dist.send(x.grad, group_dst=rank - 1, group=group)
# +    weight.grad = weight.grad / len(targets) if rank == last else weight.grad

# %% loss_not_divided of="right_all_forwards_first"
"""Wrong: the loss is a mean over microbatches and the gradient their sum, M times too long."""

# -            loss = mse_loss(y, target) * len(target) / num_rows
# +            loss = mse_loss(y, target)

# -            total += loss.detach()
# +            total += loss.detach() * len(target) / num_rows

# %% loss_on_every_rank of="right_all_forwards_first"
"""Wrong: returns 0 as the loss of ranks that have none."""

# -    return (total if rank == last else None), weight.grad
# +    return torch.as_tensor(total), weight.grad

# %% loss_summed of="right_all_forwards_first"
"""Wrong: neither the loss nor the gradient is divided."""

# -            loss = mse_loss(y, target) * len(target) / num_rows
# +            loss = mse_loss(y, target)

# %% mean_of_means of="right_all_forwards_first"
"""Wrong: 1/M for every microbatch, right only as long as all have the same number of rows."""

# -            loss = mse_loss(y, target) * len(target) / num_rows
# +            loss = mse_loss(y, target) / len(targets)

# %% only_the_last_microbatch of="right_all_forwards_first"
"""Wrong: throws away what the microbatches before have added."""

#              dist.recv(gradient, group_src=rank + 1, group=group)
# +            weight.grad = None

# %% sums_gradients_over_ranks of="right_all_forwards_first"
"""Wrong: adds up the gradients of different stages, as if they were copies."""

#              dist.send(x.grad, group_dst=rank - 1, group=group)
# +    dist.all_reduce(weight.grad, group=group)

# %% right_one_f_one_b
"""Different: 1F1B with messages in batches, autograd.grad, and the loss as a plain number."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def pipeline_step(weight, microbatches, targets, *, group):
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    weight, rows = weight.clone().requires_grad_(), sum(map(len, targets))
    sums, alive, losses = torch.zeros_like(weight), {}, []

    def forward(m):
        x = microbatches[m].clone()
        if rank:
            dist.recv(x, group_src=rank - 1, group=group)
        x.requires_grad_()
        alive[m] = x, torch.tanh(x @ weight)

    def send_forward(m):
        return [dist.isend(alive[m][1].detach(), group_dst=rank + 1, group=group)] if rank < size - 1 else []

    def backward(m):
        x, y = alive.pop(m)
        gradient = torch.empty_like(y)
        if rank < size - 1:
            dist.recv(gradient, group_src=rank + 1, group=group)
        else:
            losses.append(float(mse_loss(y, targets[m])) * len(y) / rows)
            gradient = 2 * (y.detach() - targets[m]) / (rows * y.shape[1])
        of_weight, of_input = torch.autograd.grad(y, (weight, x), gradient)
        sums.add_(of_weight)
        return [dist.isend(of_input, group_dst=rank - 1, group=group)] if rank else []

    works, warm = [], min(size - 1 - rank, len(targets))
    for m in range(len(targets) + warm):
        if m < len(targets):
            forward(m)
            works += send_forward(m)
        if m >= warm:
            works += backward(m - warm)
    for work in works:
        work.wait()
    return sum(losses) if rank == size - 1 else None, sums


# %% right_scales_the_weights_at_the_end
"""Different: adds up sums of squares and divides every rank's gradient at the end."""

import torch
import torch.distributed as dist


def pipeline_step(weight, microbatches, targets, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    weight, num_rows = weight.clone().requires_grad_(), sum(len(target) for target in targets)
    alive, total = [], 0.0
    for given in microbatches:
        x = given if rank == 0 else torch.empty_like(given)
        if rank > 0:
            dist.recv(x, group_src=rank - 1, group=group)
            x.requires_grad_()
        y = torch.tanh(x @ weight)
        alive.append((x, y))
        if rank < last:
            dist.send(y.detach(), group_dst=rank + 1, group=group)
    for (x, y), target in zip(alive, targets, strict=True):
        if rank == last:
            loss = (y - target).square().sum()
            loss.backward()
            total += loss.detach() / (num_rows * y.shape[1])
        else:
            gradient = torch.empty_like(y)
            dist.recv(gradient, group_src=rank + 1, group=group)
            y.backward(gradient)
        if rank > 0:
            dist.send(x.grad, group_dst=rank - 1, group=group)
    gradient = weight.grad / (num_rows * weight.shape[0])
    return (total if rank == last else None), gradient


# %% sum_of_squares of="right_scales_the_weights_at_the_end"
"""Wrong: adds squares and divides by the rows alone, not by their width."""

# -            loss = (y - target).square().sum()
# +            loss = (y - target).square().sum() / num_rows

# -            total += loss.detach() / (num_rows * y.shape[1])
# +            total += loss.detach()

# -    gradient = weight.grad / (num_rows * weight.shape[0])
# -    return (total if rank == last else None), gradient
# +    return (total if rank == last else None), weight.grad

# %% tags_for_order
"""Wrong: backwards in another order on each rank, which only tags make right; NCCL ignores them."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


def pipeline_step(weight, microbatches, targets, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    weight, alive, loss, works = weight.clone().requires_grad_(), [], None, []
    for tag, given in enumerate(microbatches):
        x = given if rank == 0 else torch.empty_like(given)
        if rank > 0:
            dist.recv(x, group_src=rank - 1, group=group, tag=tag)
        y = torch.tanh(x.requires_grad_(rank > 0) @ weight)
        alive.append((tag, x, y))
        if rank < last:
            dist.send(y.detach(), group_dst=rank + 1, group=group, tag=tag)
    for tag, x, y in alive if rank % 2 == 0 else reversed(alive):
        if rank < last:
            gradient = torch.empty_like(y)
            dist.recv(gradient, group_src=rank + 1, group=group, tag=tag)
            y.backward(gradient)
        else:
            part = mse_loss(y, targets[tag]) * len(y) / sum(map(len, targets))
            loss = part.detach() + (0 if loss is None else loss)
            part.backward()
        if rank > 0:
            works.append(dist.isend(x.grad, group_dst=rank - 1, group=group, tag=tag))
    for work in works:
        work.wait()
    return loss, weight.grad
