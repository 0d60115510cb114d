# %% right_as_taught
"""Different: one loop over gradients and their groups."""

import torch.distributed as dist


def finish_gradients(dense, experts, max_norm, *, dp, ep, edp):
    size = dist.get_world_size(dp)
    means = []
    for gradients, group in ((dense, dp), (experts, edp)):
        copies = [one.clone() for one in gradients]
        for one in copies:
            dist.all_reduce(one, group=group)
            one.div_(size)
        means.append(copies)
    squares = sum(one.square().sum() for one in means[1])
    dist.all_reduce(squares, group=ep)
    norm = (squares + sum(one.square().sum() for one in means[0])).sqrt()
    scale = (max_norm / norm).clamp(max=1.0)
    return norm, [one * scale for one in means[0]], [one * scale for one in means[1]]


def gradients_step(dense, experts, max_norm, *, dp, ep, edp):
    norm, dense, experts = finish_gradients(dense, experts, max_norm, dp=dp, ep=ep, edp=edp)
    return norm, *dense, *experts


# %% times_ep of="right_as_taught"
"""Wrong: experts are divided by their copies: ep times too large (DeepSpeed#5618, #6545)."""

# -            one.div_(size)
# +            one.div_(dist.get_world_size(group))

# %% over_dp of="right_as_taught"
"""Wrong: adds experts over all ranks, different experts into each other."""

# -    for gradients, group in ((dense, dp), (experts, edp)):
# +    for gradients, group in ((dense, dp), (experts, dp)):

# %% over_ep of="right_as_taught"
"""Wrong: adds experts over ep, different experts into each other."""

# -    for gradients, group in ((dense, dp), (experts, edp)):
# +    for gradients, group in ((dense, dp), (experts, ep)):

# %% experts_alone of="right_as_taught"
"""Wrong: experts are not averaged at all."""

# -    for gradients, group in ((dense, dp), (experts, edp)):
# +    for gradients, group in ((dense, dp), (experts, None)):

# %% copies_not_added of="right_as_taught"
"""Wrong: each copy of an expert keeps its own gradient."""

# -            dist.all_reduce(one, group=group)
# +            if group is dp:
# +                dist.all_reduce(one, group=group)

# %% dense_over_ep of="right_as_taught"
"""Wrong: dense gradients over ep alone."""

# -    for gradients, group in ((dense, dp), (experts, edp)):
# +    for gradients, group in ((dense, ep), (experts, edp)):

# %% norm_without_experts of="right_as_taught"
"""Wrong: the norm of the dense gradients alone."""

# -    norm = (squares + sum(one.square().sum() for one in means[0])).sqrt()
# +    norm = (0 * squares + sum(one.square().sum() for one in means[0])).sqrt()

# %% own_experts_alone of="right_as_taught"
"""Wrong: the norm counts this rank's experts and no others: each rank clips by another factor (Megatron#5916, Automodel#3816)."""

# -    dist.all_reduce(squares, group=ep)

# %% copies_in_the_norm of="right_as_taught"
"""Wrong: adds squares over all ranks: copies of experts count edp times."""

# -    dist.all_reduce(squares, group=ep)
# +    dist.all_reduce(squares, group=dp)

# %% dense_in_each of="right_as_taught"
"""Wrong: adds everything over ep: dense gradients count ep times."""

# -    squares = sum(one.square().sum() for one in means[1])
# +    squares = sum(one.square().sum() for one in means[1]) + sum(one.square().sum() for one in means[0])

# %% mean_of_norms of="right_as_taught"
"""Wrong: averages the ranks' norms (DeepSpeed#8478)."""

#      norm = (squares + sum(one.square().sum() for one in means[0])).sqrt()
# +    squares = sum(one.square().sum() for one in (*means[0], *means[1]))
# +    norm = squares.sqrt()
# +    dist.all_reduce(norm, group=ep)
# +    norm = norm / dist.get_world_size(ep)

# %% always_scales of="right_as_taught"
"""Wrong: scales up what is below the limit."""

# -    scale = (max_norm / norm).clamp(max=1.0)
# +    scale = max_norm / norm

# %% never_clips of="right_as_taught"
"""Wrong: returns the norm and clips nothing."""

# -    scale = (max_norm / norm).clamp(max=1.0)
# +    scale = (norm / norm)

# %% experts_unclipped of="right_as_taught"
"""Wrong: clips the dense gradients alone."""

# -    return norm, [one * scale for one in means[0]], [one * scale for one in means[1]]
# +    return norm, [one * scale for one in means[0]], [one * 1 for one in means[1]]

# %% norm_after of="right_as_taught"
"""Wrong: returns the norm after the clip."""

# -    return norm, [one * scale for one in means[0]], [one * scale for one in means[1]]
# +    return norm * scale, [one * scale for one in means[0]], [one * scale for one in means[1]]

# %% square_forgotten of="right_as_taught"
"""Wrong: adds norms, not squares."""

# -    norm = (squares + sum(one.square().sum() for one in means[0])).sqrt()
# +    norm = squares.sqrt() + sum(one.square().sum() for one in means[0]).sqrt()

# %% for_two of="right_as_taught"
"""Wrong: divides by two: right for two ranks."""

# -    size = dist.get_world_size(dp)
# +    size = 2

# %% gathers of="right_as_taught"
"""Wrong: gathers the expert gradients of all ranks."""

#          means.append(copies)
# +    everybody = [one.clone() for one in experts for _ in range(size)]
# +    dist.all_gather(everybody, experts[0], group=dp)

# %% in_place of="right_as_taught"
"""Wrong: works in the tensors it was given."""

# -        copies = [one.clone() for one in gradients]
# +        copies = gradients

# %% right_flat
"""Different: one flat message for each group, divided before it travels, torch's epsilon in the scale."""

import torch
import torch.distributed as dist


def reduced(gradients, count, group):
    flat = torch.cat([one.flatten() for one in gradients]) / count
    dist.all_reduce(flat, group=group)
    pieces = flat.split([one.numel() for one in gradients])
    return [piece.reshape(one.shape) for piece, one in zip(pieces, gradients, strict=True)], flat


def gradients_step(dense, experts, max_norm, *, dp, ep, edp):
    count = dist.get_world_size(group=dp)
    new_dense, flat_dense = reduced(dense, count, dp)
    new_experts, flat_experts = reduced(experts, count, edp)
    parts = torch.zeros(dist.get_world_size(ep), dtype=torch.float64)
    parts[dist.get_rank(ep)] = flat_experts.double().pow(2).sum()
    dist.all_reduce(parts, group=ep)
    norm = (parts.sum() + flat_dense.double().pow(2).sum()).sqrt().float()
    scale = min(1.0, max_norm / (norm.item() + 1e-6))
    return (norm, *(one * scale for one in (*new_dense, *new_experts)))
