# %% right_a_share_each
"""Different: every tensor-parallel rank counts its share of what is whole."""

import torch
import torch.distributed as dist


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    size = dist.get_world_size(tp_group)
    squares = [g.double().square().sum() / (1 if s else size) for g, s in zip(gradients, is_split, strict=True)]
    total = torch.stack(squares).sum()
    for group in (pp_group, tp_group):
        dist.all_reduce(total, group=group)
    return total.item() ** 0.5


# %% half_for_two of="right_a_share_each"
"""Wrong: counts what is whole half on each rank, right for tp 2 alone."""

# -    size = dist.get_world_size(tp_group)
# -    squares = [g.double().square().sum() / (1 if s else size) for g, s in zip(gradients, is_split, strict=True)]
# -    total = torch.stack(squares).sum()
# -    for group in (pp_group, tp_group):
# -        dist.all_reduce(total, group=group)
# -    return total.item() ** 0.5
# +    t = torch.zeros(())
# +    for g, s in zip(gradients, is_split, strict=True):
# +        t += g.float().square().sum() * (1 if s else 0.5)
# +    dist.all_reduce(t, group=tp_group)
# +    dist.all_reduce(t, group=pp_group)
# +    return t.sqrt()

# %% half_of_the_whole of="right_a_share_each"
"""Wrong: halves what is whole, right on two tensor-parallel ranks."""

# -    size = dist.get_world_size(tp_group)
# -    squares = [g.double().square().sum() / (1 if s else size) for g, s in zip(gradients, is_split, strict=True)]
# +    squares = [g.double().square().sum() / (1 if s else 2) for g, s in zip(gradients, is_split, strict=True)]

# -    return total.item() ** 0.5
# +    return total.sqrt()

# %% right_first_rank
"""Different: what is whole is counted on the first tensor-parallel rank."""

import torch
import torch.distributed as dist


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    first = dist.get_rank(tp_group) == 0
    total = torch.zeros(())
    for gradient, split in zip(gradients, is_split, strict=True):
        if split or first:
            total += gradient.float().square().sum()
    dist.all_reduce(total, group=tp_group)
    dist.all_reduce(total, group=pp_group)
    return total.sqrt()


# %% only_some_call of="right_first_rank"
"""Wrong: only the first tensor-parallel ranks call the last all-reduce and know the norm."""

# -    dist.all_reduce(total, group=tp_group)
# -    dist.all_reduce(total, group=pp_group)
# +    dist.reduce(total, group=tp_group, group_dst=0)
# +    if first:
# +        dist.all_reduce(total, group=pp_group)

# %% over_the_world of="right_first_rank"
"""Wrong: sums over all ranks, copies of other replicas too."""

# -    dist.all_reduce(total, group=tp_group)
# -    dist.all_reduce(total, group=pp_group)
# +    dist.all_reduce(total)

# %% sums_in_bfloat16 of="right_first_rank"
"""Wrong: adds up in the dtype of the gradients."""

# -    total = torch.zeros(())
# +    total = torch.zeros((), dtype=gradients[0].dtype)

# -            total += gradient.float().square().sum()
# +            total += gradient.square().sum()

# %% sums_norms of="right_first_rank"
"""Wrong: adds up norms over ranks."""

# -    dist.all_reduce(total, group=tp_group)
# -    dist.all_reduce(total, group=pp_group)
# -    return total.sqrt()
# +    norm = total.sqrt()
# +    dist.all_reduce(norm, group=tp_group)
# +    dist.all_reduce(norm, group=pp_group)
# +    return norm

# %% right_sums_apart
"""Different: only the squares of what is split travel over tp."""

import torch
import torch.distributed as dist


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    split = sum((g.float().square().sum() for g, s in zip(gradients, is_split, strict=True) if s), torch.zeros(()))
    whole = sum((g.float().square().sum() for g, s in zip(gradients, is_split, strict=True) if not s), torch.zeros(()))
    dist.all_reduce(split, group=tp_group)
    total = split + whole
    dist.all_reduce(total, group=pp_group)
    return float(total.sqrt())


# %% inverted
"""Wrong: counts the split ones on the first rank, the whole ones everywhere."""

import torch
import torch.distributed as dist


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    total = torch.zeros(())
    for gradient, split in zip(gradients, is_split, strict=True):
        if not split or dist.get_rank(tp_group) == 0:
            total += gradient.float().square().sum()
    dist.all_reduce(total, group=tp_group)
    dist.all_reduce(total, group=pp_group)
    return total.sqrt()


# %% divides_everything of="inverted"
"""Wrong: divides the whole sum by the tensor-parallel ranks."""

# -    total = torch.zeros(())
# -    for gradient, split in zip(gradients, is_split, strict=True):
# -        if not split or dist.get_rank(tp_group) == 0:
# -            total += gradient.float().square().sum()
# +    total = sum((g.float().square().sum() for g in gradients), torch.zeros(()))
#      dist.all_reduce(total, group=tp_group)
# +    total /= dist.get_world_size(tp_group)

# %% everything_counts of="inverted"
"""Wrong: what every tensor-parallel rank holds is counted on each."""

# -    total = torch.zeros(())
# -    for gradient, split in zip(gradients, is_split, strict=True):
# -        if not split or dist.get_rank(tp_group) == 0:
# -            total += gradient.float().square().sum()
# +    total = sum((g.float().square().sum() for g in gradients), torch.zeros(()))

# %% gathers_the_gradients of="inverted"
"""Wrong: sends the gradients themselves; right, and far too long."""

# -        if not split or dist.get_rank(tp_group) == 0:
# -            total += gradient.float().square().sum()
# -    dist.all_reduce(total, group=tp_group)
# +        parts = [torch.empty_like(gradient) for _ in range(dist.get_world_size(tp_group))]
# +        dist.all_gather(parts, gradient, group=tp_group)
# +        total += sum(part.float().square().sum() for part in (parts if split else parts[:1]))

# %% no_pipeline of="inverted"
"""Wrong: forgets the other stages."""

# -        if not split or dist.get_rank(tp_group) == 0:
# +        if split or dist.get_rank(tp_group) == 0:

# -    dist.all_reduce(total, group=pp_group)

# %% no_root of="inverted"
"""Wrong: the sum of squares."""

# -        if not split or dist.get_rank(tp_group) == 0:
# +        if split or dist.get_rank(tp_group) == 0:

# -    return total.sqrt()
# +    return total

# %% no_tensor of="inverted"
"""Wrong: forgets the other tensor-parallel ranks."""

# -        if not split or dist.get_rank(tp_group) == 0:
# +        if split or dist.get_rank(tp_group) == 0:

# -    dist.all_reduce(total, group=tp_group)

# %% on_rank_0_of_the_world of="inverted"
"""Wrong: counts what is whole on one rank of the world alone; other stages have others."""

# -        if not split or dist.get_rank(tp_group) == 0:
# +        if split or dist.get_rank() == 0:

# %% only_what_is_split of="inverted"
"""Wrong: leaves out what is whole."""

# -        if not split or dist.get_rank(tp_group) == 0:
# +        if split:

# %% only_what_is_whole of="inverted"
"""Wrong: counts the whole ones on each rank and no others."""

# -        if not split or dist.get_rank(tp_group) == 0:
# +        if not split:

# %% own_norm
"""Wrong: the norm of what this rank holds."""

import torch


def whole_norm(gradients, is_split, *, tp_group, pp_group):
    total = sum((g.float().square().sum() for g in gradients), torch.zeros(()))
    return total.sqrt()
