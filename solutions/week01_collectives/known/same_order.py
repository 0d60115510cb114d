# %% right_async
"""Different: both all-reduces are in flight together, started in one order and waited for in the other."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    size = dist.get_world_size(group)
    loss, gradient = loss / size, gradient / size
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor in (loss, gradient)]
    for work in reversed(works):
        work.wait()
    return loss, gradient


# %% right_gradient_first
"""Different: gradient first, on every rank."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    mean_gradient = gradient.clone()
    dist.all_reduce(mean_gradient, group=group)
    mean_loss = loss.clone()
    dist.all_reduce(mean_loss, group=group)
    return mean_loss / dist.get_world_size(group), mean_gradient / dist.get_world_size(group)


# %% right_one_message
"""Different: packs loss and gradient into one tensor, one all-reduce."""

import torch
import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    packed = torch.cat([loss.reshape(-1), gradient.reshape(-1)])
    dist.all_reduce(packed, group=group)
    packed /= dist.get_world_size(group)
    return packed[: loss.numel()].view_as(loss).clone(), packed[loss.numel() :].view_as(gradient).clone()


# %% sum_for_mean
"""Wrong: one order on every rank, but sums where means are due."""

import torch.distributed as dist


def average_loss_and_gradient(loss, gradient, *, group):
    loss, gradient = loss.clone(), gradient.clone()
    dist.all_reduce(loss, group=group)
    dist.all_reduce(gradient, group=group)
    return loss, gradient


# %% changes_its_input of="sum_for_mean"
"""Wrong: right means, but the caller's tensors are overwritten."""

# -    loss, gradient = loss.clone(), gradient.clone()
# -    dist.all_reduce(loss, group=group)
# -    dist.all_reduce(gradient, group=group)
# +    for tensor in (loss, gradient):
# +        dist.all_reduce(tensor, group=group)
# +        tensor.div_(dist.get_world_size(group))

# %% divides_by_the_world of="sum_for_mean"
"""Wrong: sums over the group and divides by the size of the world."""

# -    return loss, gradient
# +    return loss / dist.get_world_size(), gradient / dist.get_world_size()

# %% gradient_only of="sum_for_mean"
"""Wrong: the loss stays each rank's own."""

# -    loss, gradient = loss.clone(), gradient.clone()
# -    dist.all_reduce(loss, group=group)
# +    gradient = gradient.clone()

# -    return loss, gradient
# +    return loss.clone(), gradient / dist.get_world_size(group)

# %% loss_only of="sum_for_mean"
"""Wrong: the gradient stays each rank's own."""

# -    loss, gradient = loss.clone(), gradient.clone()
# +    loss = loss.clone()

# -    dist.all_reduce(gradient, group=group)
# -    return loss, gradient
# +    return loss / dist.get_world_size(group), gradient.clone()

# %% odd_ranks_the_other_way of="sum_for_mean"
"""Wrong: repaired for rank 0, now odd ranks use the other order."""

# -    loss, gradient = loss.clone(), gradient.clone()
# -    dist.all_reduce(loss, group=group)
# -    dist.all_reduce(gradient, group=group)
# -    return loss, gradient
# +    means = {"loss": loss.clone(), "gradient": gradient.clone()}
# +    for name in sorted(means, reverse=dist.get_rank(group) % 2 == 1):
# +        dist.all_reduce(means[name], group=group)
# +        means[name] /= dist.get_world_size(group)
# +    return means["loss"], means["gradient"]

# %% rank_zero_only of="sum_for_mean"
"""Wrong: reduces to rank 0, the others keep something else."""

# -    loss, gradient = loss.clone(), gradient.clone()
# -    dist.all_reduce(loss, group=group)
# -    dist.all_reduce(gradient, group=group)
# -    return loss, gradient
# +    means = []
# +    for tensor in (loss, gradient):
# +        total = tensor.clone()
# +        dist.reduce(total, group_dst=0, group=group)
# +        means.append(total / dist.get_world_size(group))
# +    return means[0], means[1]

# %% rank_zero_the_other_way of="sum_for_mean"
"""Wrong: the version of the page, rank 0 all-reduces in another order than the rest."""

# -    loss, gradient = loss.clone(), gradient.clone()
# -    dist.all_reduce(loss, group=group)
# -    dist.all_reduce(gradient, group=group)
# -    return loss, gradient
# +    first, second = loss.clone(), gradient.clone()
# +    for tensor in [second, first] if dist.get_rank(group) == 0 else [first, second]:
# +        dist.all_reduce(tensor, group=group)
# +    return first / dist.get_world_size(group), second / dist.get_world_size(group)

# %% two_ranks_only of="sum_for_mean"
"""Wrong: divides by 2 whatever the number of ranks."""

# -    return loss, gradient
# +    return loss / 2, gradient / 2
