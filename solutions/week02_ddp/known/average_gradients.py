# %% right_async
"""Different: all under way at once, and a tuple."""

import torch.distributed as dist


def average_gradients(gradients, *, group):
    means = [gradient.clone() for gradient in gradients]
    works = [dist.all_reduce(mean, group=group, async_op=True) for mean in means]
    for work in works:
        work.wait()
    return tuple(mean / dist.get_world_size(group) for mean in means)


# %% right_divide_first
"""Different: divides before it adds."""

import torch.distributed as dist


def average_gradients(gradients, *, group):
    size = dist.get_world_size(group)
    means = [gradient / size for gradient in gradients]
    for mean in means:
        dist.all_reduce(mean, group=group)
    return means


# %% divides_twice of="right_divide_first"
"""Wrong: divides before and after."""

# -    return means
# +    return [mean / size for mean in means]

# %% right_one_bucket
"""Different: all in one message."""

import torch
import torch.distributed as dist


def average_gradients(gradients, *, group):
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat, group=group)
    parts = (flat / dist.get_world_size(group)).split([gradient.numel() for gradient in gradients])
    return [part.clone().view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)]


# %% all_gathers of="right_one_bucket"
"""Wrong: everybody gets everything, N/2 times the bytes."""

# -    flat = torch.cat([gradient.flatten() for gradient in gradients])
# -    dist.all_reduce(flat, group=group)
# -    parts = (flat / dist.get_world_size(group)).split([gradient.numel() for gradient in gradients])
# -    return [part.clone().view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)]
# +    size = dist.get_world_size(group)
# +    means = []
# +    for gradient in gradients:
# +        everybody = [torch.empty_like(gradient) for _ in range(size)]
# +        dist.all_gather(everybody, gradient, group=group)
# +        means.append(torch.stack(everybody).sum(0) / size)
# +    return means

# %% last_rank_counts
"""Wrong: a broadcast instead of a mean."""

import torch.distributed as dist


def average_gradients(gradients, *, group):
    means = [gradient.clone() for gradient in gradients]
    for mean in means:
        dist.broadcast(mean, group_src=0, group=group)
    return means


# %% changes_its_input of="last_rank_counts"
"""Wrong: averages in place."""

# -    means = [gradient.clone() for gradient in gradients]
# -    for mean in means:
# -        dist.broadcast(mean, group_src=0, group=group)
# -    return means
# +    for gradient in gradients:
# +        dist.all_reduce(gradient, group=group)
# +        gradient.div_(dist.get_world_size(group))
# +    return [gradient.clone() for gradient in gradients]

# %% divides_by_the_world of="last_rank_counts"
"""Wrong: divides by the number of all ranks, not those of the group."""

# -        dist.broadcast(mean, group_src=0, group=group)
# +        dist.all_reduce(mean, group=group)
# +        mean.div_(dist.get_world_size())

# %% first_only of="last_rank_counts"
"""Wrong: only the first gradient travels."""

# -    for mean in means:
# -        dist.broadcast(mean, group_src=0, group=group)
# +    dist.all_reduce(means[0], group=group)
# +    means[0] /= dist.get_world_size(group)

# %% float32_out of="last_rank_counts"
"""Wrong: another dtype than the gradient's."""

# -    means = [gradient.clone() for gradient in gradients]
# +    means = [gradient.float() + 0.0 for gradient in gradients]

# -        dist.broadcast(mean, group_src=0, group=group)
# -    return means
# +        dist.all_reduce(mean, group=group)
# +    return [mean / dist.get_world_size(group) for mean in means]

# %% forgets_the_group of="last_rank_counts"
"""Wrong: the default group."""

# -        dist.broadcast(mean, group_src=0, group=group)
# +        dist.all_reduce(mean)
# +        mean.div_(dist.get_world_size(group))

# %% loses_the_shapes of="last_rank_counts"
"""Wrong: flat means."""

# -    means = [gradient.clone() for gradient in gradients]
# +    means = [gradient.flatten().clone() for gradient in gradients]

# -        dist.broadcast(mean, group_src=0, group=group)
# -    return means
# +        dist.all_reduce(mean, group=group)
# +    return [mean / dist.get_world_size(group) for mean in means]

# %% returns_its_input of="last_rank_counts"
"""Wrong: averages in place and returns the caller's tensors."""

# -    means = [gradient.clone() for gradient in gradients]
# -    for mean in means:
# -        dist.broadcast(mean, group_src=0, group=group)
# -    return means
# +    for gradient in gradients:
# +        dist.all_reduce(gradient, group=group)
# +        gradient.div_(dist.get_world_size(group))
# +    return gradients

# %% sum_for_mean of="last_rank_counts"
"""Wrong: forgets to divide."""

# -    means = [gradient.clone() for gradient in gradients]
# -    for mean in means:
# -        dist.broadcast(mean, group_src=0, group=group)
# -    return means
# +    sums = [gradient.clone() for gradient in gradients]
# +    for total in sums:
# +        dist.all_reduce(total, group=group)
# +    return sums

# %% two_ranks_only of="last_rank_counts"
"""Wrong: a half, whatever the number of ranks."""

# -        dist.broadcast(mean, group_src=0, group=group)
# +        dist.all_reduce(mean, group=group)
# +        mean.div_(2)
