# %% right_as_taught from="page"
"""Different: as the page solves it."""

import torch
import torch.distributed as dist

# %% divides_by_zero of="right_as_taught"
"""Wrong: divides by the norm first: a norm of zero gives not-a-number."""

# -        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
# +        gradient.div_(norm).mul_(torch.clamp(norm, max=max_norm))

# %% gathers_the_slices of="right_as_taught"
"""Wrong: sends whole slices for one number."""

# -    dist.all_reduce(total, group=group)
# -    norm = total.sqrt()
# +    mine = torch.cat([torch.zeros(1), *(gradient.float() for gradient in gradients)])
# +    sizes = [None] * dist.get_world_size(group)
# +    dist.all_gather_object(sizes, mine.numel(), group=group)
# +    mine = torch.cat([mine, torch.zeros(max(sizes) - mine.numel())])
# +    everyone = [torch.empty_like(mine) for _ in sizes]
# +    dist.all_gather(everyone, mine, group=group)
# +    norm = torch.cat(everyone).norm()

# %% largest_norm of="right_as_taught"
"""Wrong: the largest of the ranks' norms."""

# -    dist.all_reduce(total, group=group)
# +    dist.all_reduce(total, dist.ReduceOp.MAX, group=group)

# %% low_precision of="right_as_taught"
"""Wrong: squares and adds in the dtype of the slices."""

# -    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))
# +    squares = [(gradient * gradient).cumsum(0)[-1] for gradient in gradients]
# +    total = sum(squares, torch.zeros(()))

# %% mean_of_squares of="right_as_taught"
"""Wrong: averages the squares over ranks."""

# -    norm = total.sqrt()
# +    norm = (total / dist.get_world_size(group)).sqrt()

# %% nothing_to_say of="right_as_taught"
"""Wrong: a rank without slices leaves before the others call."""

# -    """Scale slices so that those of all ranks together have a norm of at most max_norm. Returns the norm before."""
# +    if not gradients:
# +        return torch.zeros(())

# %% own_norm of="right_as_taught"
"""Wrong: the norm of its own slices, taken for the whole."""

# -import torch.distributed as dist

# -    dist.all_reduce(total, group=group)

# %% scales_copies of="right_as_taught"
"""Wrong: scales copies."""

# -        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
# +        gradient.clone().mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))

# %% scales_up of="right_as_taught"
"""Wrong: scales small gradients up to the maximum."""

# -        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
# +        gradient.mul_(max_norm / (norm + 1e-6))

# %% slice_by_slice of="right_as_taught"
"""Wrong: clips each slice by its own norm."""

# -        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
# +        gradient.mul_(torch.clamp(max_norm / (gradient.float().norm() + 1e-6), max=1))

# %% sums_norms of="right_as_taught"
"""Wrong: adds norms up, 3 + 4 = 7."""

# -    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))
# +    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(())).sqrt()

# -    norm = total.sqrt()
# +    norm = total

# %% right_if
"""Different: clips only when there is something to clip."""

import torch
import torch.distributed as dist


def clip_slices(gradients, max_norm, *, group):
    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm


# %% right_vector_norm
"""Different: torch.linalg, a plain number returned."""

import torch
import torch.distributed as dist


def clip_slices(gradients, max_norm, *, group):
    norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in gradients]
    total = torch.stack([*norms, torch.zeros((), dtype=torch.float64)]).square().sum()
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    for gradient in gradients:
        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
    return norm.item()


# %% never_clips of="right_vector_norm"
"""Wrong: returns the norm and changes nothing."""

# -    norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in gradients]
# -    total = torch.stack([*norms, torch.zeros((), dtype=torch.float64)]).square().sum()
# +    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))

# -    for gradient in gradients:
# -        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
# -    return norm.item()
# +    return norm
