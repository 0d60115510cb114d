# %% right_flags_first
"""Different: flags by a maximum, then zeros for what is missing."""

import torch
import torch.distributed as dist


def average_used(gradients, parameters, *, group):
    used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.uint8)
    dist.all_reduce(used, dist.ReduceOp.MAX, group=group)
    means = []
    for gradient, parameter, flag in zip(gradients, parameters, used.tolist(), strict=True):
        mean = torch.zeros_like(parameter) if gradient is None else gradient.clone()
        if flag:
            dist.all_reduce(mean, group=group)
            mean.div_(dist.get_world_size(group))
        means.append(mean if flag else None)
    return means


# %% all_gathers of="right_flags_first"
"""Wrong: everybody gets everybody's gradients."""

# -        if flag:
# -            dist.all_reduce(mean, group=group)
# -            mean.div_(dist.get_world_size(group))
# -        means.append(mean if flag else None)
# +        everybody = [torch.empty_like(mean) for _ in range(dist.get_world_size(group))]
# +        dist.all_gather(everybody, mean, group=group)
# +        means.append(torch.stack(everybody).sum(0) / len(everybody) if flag else None)

# %% forgets_the_group of="right_flags_first"
"""Wrong: the default group for the gradients."""

# -        if flag:
# -            dist.all_reduce(mean, group=group)
# -            mean.div_(dist.get_world_size(group))
# -        means.append(mean if flag else None)
# +        dist.all_reduce(mean)
# +        means.append(mean / dist.get_world_size(group) if flag else None)

# %% sum_for_mean of="right_flags_first"
"""Wrong: the sum."""

# -        if flag:
# -            dist.all_reduce(mean, group=group)
# -            mean.div_(dist.get_world_size(group))
# +        dist.all_reduce(mean, group=group)

# %% zeros_for_nobody of="right_flags_first"
"""Wrong: zeros where no rank has a gradient; weight decay goes on with them."""

# -        if flag:
# -            dist.all_reduce(mean, group=group)
# -            mean.div_(dist.get_world_size(group))
# -        means.append(mean if flag else None)
# +        dist.all_reduce(mean, group=group)
# +        means.append(mean / dist.get_world_size(group))

# %% right_lists_of_names
"""Different: the ranks tell each other by all_gather_object who has used what."""

import torch
import torch.distributed as dist


def average_used(gradients, parameters, *, group):
    everybody = [None] * dist.get_world_size(group)
    dist.all_gather_object(everybody, [n for n, g in enumerate(gradients) if g is not None], group=group)
    used = {number for numbers in everybody for number in numbers}
    means = [None] * len(gradients)
    for number in sorted(used):
        mean = torch.zeros_like(parameters[number]) if gradients[number] is None else gradients[number].clone()
        dist.all_reduce(mean, group=group)
        means[number] = mean / len(everybody)
    return means


# %% right_one_message
"""Different: zeros and flags in one message, in float64."""

import torch
import torch.distributed as dist


def average_used(gradients, parameters, *, group):
    filled = [torch.zeros_like(p) if g is None else g for g, p in zip(gradients, parameters, strict=True)]
    flags = torch.tensor([float(g is not None) for g in gradients], dtype=filled[0].dtype)
    flat = torch.cat([*(tensor.flatten() for tensor in filled), flags])
    dist.all_reduce(flat, group=group)
    *sums, counts = flat.split([*(p.numel() for p in parameters), len(parameters)])
    size = dist.get_world_size(group)
    pairs = zip(sums, parameters, counts.tolist(), strict=True)
    return [(total / size).view_as(p) if count else None for total, p, count in pairs]


# %% own_flag
"""Wrong: None wherever this rank has none."""

import torch
import torch.distributed as dist


def average_used(gradients, parameters, *, group):
    used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.uint8)
    means = []
    for gradient, parameter, flag in zip(gradients, parameters, used.tolist(), strict=True):
        mean = torch.zeros_like(parameter) if gradient is None else gradient.clone()
        dist.all_reduce(mean, group=group)
        means.append(mean / dist.get_world_size(group) if flag else None)
    return means


# %% all_must_use_it of="own_flag"
"""Wrong: None unless all ranks have used it."""

#      used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.uint8)
# +    dist.all_reduce(used, dist.ReduceOp.MIN, group=group)

# %% changes_its_input of="own_flag"
"""Wrong: averages in the caller's gradients."""

#      used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.uint8)
# +    dist.all_reduce(used, dist.ReduceOp.MAX, group=group)

# -        mean = torch.zeros_like(parameter) if gradient is None else gradient.clone()
# +        mean = torch.zeros_like(parameter) if gradient is None else gradient

# %% mean_over_users of="own_flag"
"""Wrong: divides by those who have used it, not by N."""

# -    used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.uint8)
# +    used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.int64)
# +    dist.all_reduce(used, dist.ReduceOp.SUM, group=group)

# -        means.append(mean / dist.get_world_size(group) if flag else None)
# +        means.append(mean / flag if flag else None)

# %% ones_for_missing of="own_flag"
"""Wrong: sends the parameter where it has no gradient."""

#      used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.uint8)
# +    dist.all_reduce(used, dist.ReduceOp.MAX, group=group)

# -        mean = torch.zeros_like(parameter) if gradient is None else gradient.clone()
# +        mean = parameter.clone() if gradient is None else gradient.clone()

# %% rank_zero_decides of="own_flag"
"""Wrong: the flags of the group's first rank."""

#      used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.uint8)
# +    dist.broadcast(used, group_src=0, group=group)

# %% skips_what_is_missing
"""Wrong: a rank without a gradient makes no call; the others wait, or add up other gradients."""

import torch.distributed as dist


def average_used(gradients, parameters, *, group):
    means = []
    for gradient, parameter in zip(gradients, parameters, strict=True):
        if gradient is None:
            means.append(None)
            continue
        mean = gradient.clone()
        dist.all_reduce(mean, group=group)
        means.append(mean / dist.get_world_size(group))
    return means
