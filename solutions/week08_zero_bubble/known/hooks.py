# %% right_as_taught from="page"
"""Different: as the page solves it."""

import torch
import torch.distributed as dist

# %% every_microbatch of="right_as_taught"
"""Wrong: sends the gradient again for every microbatch."""

# -    """inputs[m]: [rows, in], gradients[m]: [rows, out] of microbatch m; returns [in, out], equal on every rank."""

# -        total += layer_input.T @ gradient
# -    dist.all_reduce(total, group=group)  # what the hook would have done, after the last W
# -    return total / dist.get_world_size(group)
# +        mine = layer_input.T @ gradient
# +        dist.all_reduce(mine, group=group)
# +        total += mine / dist.get_world_size(group)
# +    return total

# %% first_microbatch_only of="right_as_taught"
"""Wrong: takes the gradient of the first microbatch."""

# -    for layer_input, gradient in zip(inputs, gradients, strict=True):
# +    for layer_input, gradient in [(inputs[0], gradients[0])]:

# %% forgets_the_group of="right_as_taught"
"""Wrong: averages over the whole world."""

# -    """inputs[m]: [rows, in], gradients[m]: [rows, out] of microbatch m; returns [in, out], equal on every rank."""

# -    dist.all_reduce(total, group=group)  # what the hook would have done, after the last W
# -    return total / dist.get_world_size(group)
# +    dist.all_reduce(total)
# +    return total / dist.get_world_size()

# %% gathers_everything of="right_as_taught"
"""Wrong: every replica sends all its inputs instead of one gradient."""

# -    dist.all_reduce(total, group=group)  # what the hook would have done, after the last W
# +    parts = [torch.empty_like(total) for _ in range(dist.get_world_size(group))]
# +    for _ in range(4):
# +        dist.all_gather(parts, total, group=group)
# +    total = sum(parts)  # what the hook would have done, after the last W

# %% last_microbatch_only of="right_as_taught"
"""Wrong: overwrites instead of adding."""

# -        total += layer_input.T @ gradient
# +        total = layer_input.T @ gradient

# %% mean_over_microbatches of="right_as_taught"
"""Wrong: divides by the number of microbatches too."""

# -    return total / dist.get_world_size(group)
# +    return total / dist.get_world_size(group) / len(inputs)

# %% rank_zero_only of="right_as_taught"
"""Wrong: a reduce; rank 0 has the mean, the others have not."""

# -    dist.all_reduce(total, group=group)  # what the hook would have done, after the last W
# +    dist.reduce(total, group_dst=0, group=group)  # what the hook would have done, after the last W

# %% sum_for_mean of="right_as_taught"
"""Wrong: the sum over the replicas."""

# -    return total / dist.get_world_size(group)
# +    return total

# %% two_replicas_only of="right_as_taught"
"""Wrong: divides by two, whatever the group."""

# -    return total / dist.get_world_size(group)
# +    return total / 2

# %% right_by_the_hook
"""Different: the hook stays; autograd adds the last gradient, so that it fires once."""

import torch
import torch.distributed as dist


def weight_gradient(weight, inputs, gradients, *, group):
    weight = torch.nn.Parameter(weight.clone())

    def average(parameter):
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= dist.get_world_size(group)

    weight.register_post_accumulate_grad_hook(average)
    rows, arrived = torch.cat(list(inputs)), torch.cat(list(gradients))
    torch.autograd.backward([rows @ weight], [arrived], inputs=[weight])
    return weight.grad


# %% right_two_collectives
"""Different: a reduce-scatter and an all-gather of padded rows, which send as much."""

import torch
import torch.distributed as dist


def weight_gradient(weight, inputs, gradients, *, group):
    size = dist.get_world_size(group)
    total = torch.cat([x.T for x in inputs], 1) @ torch.cat(list(gradients))
    padded = torch.nn.functional.pad(total.flatten(), (0, -total.numel() % size)) / size
    mine = padded.new_empty(padded.numel() // size)
    dist.reduce_scatter_tensor(mine, padded, group=group)
    dist.all_gather_into_tensor(padded, mine, group=group)
    return padded[: total.numel()].reshape(weight.shape).clone()


# %% nobody_averages
"""Wrong: the bug itself, every replica keeps its own gradient."""

import torch


def weight_gradient(weight, inputs, gradients, *, group):
    total = torch.zeros_like(weight)
    for layer_input, gradient in zip(inputs, gradients, strict=True):
        total += layer_input.T @ gradient
    return total
