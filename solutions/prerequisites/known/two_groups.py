# %% right_split_by_gather
"""Different: gathers from everybody, and adds the numbers of its own parity."""

import torch
import torch.distributed as dist


def sum_over_parity(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return sum(parts[dist.get_rank() % 2 :: 2])


# %% own_group_only
"""Wrong: each rank makes only its own group, so the even ranks and the odd ones wait for each other."""

import torch.distributed as dist


def sum_over_parity(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(list(range(rank % 2, size, 2)))
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total


# %% over_everybody of="own_group_only"
"""Wrong: sums over all ranks."""

# -    group = dist.new_group(list(range(rank % 2, size, 2)))
# +    group = None

# %% neighbors of="own_group_only"
"""Wrong: pairs of neighbors instead of even and odd ranks; right on one rank of each only."""

# -    group = dist.new_group(list(range(rank % 2, size, 2)))
# +    groups = [dist.new_group([r for r in range(size) if r // 2 == pair]) for pair in range((size + 1) // 2)]
# +    group = groups[rank // 2]

# %% overwrites_the_input of="own_group_only"
"""Wrong: right sums, but the caller's tensor is overwritten."""

# -    group = dist.new_group(list(range(rank % 2, size, 2)))
# -    total = tensor.clone()
# +    group = [dist.new_group(list(range(first, size, 2))) for first in range(min(2, size))][rank % 2]
# +    total = tensor

# %% right_page from="page"
"""Different: the page."""
