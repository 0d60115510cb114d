# %% right_async
"""Different: starts the all-reduce, then waits for it."""

import torch.distributed as dist


def total_of(tensor, *, group):
    total = tensor.detach().clone()
    work = dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group, async_op=True)
    work.wait()
    return total


# %% changes_its_input of="right_async"
"""Wrong: right sum, but all_reduce works in place and the caller's tensor is overwritten."""

# -    total = tensor.detach().clone()
# -    work = dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group, async_op=True)
# -    work.wait()
# -    return total
# +    dist.all_reduce(tensor, group=group)
# +    return tensor

# %% forgets_the_group of="right_async"
"""Wrong: adds up over the world, in which a rank outside the group never calls."""

# -    total = tensor.detach().clone()
# -    work = dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group, async_op=True)
# -    work.wait()
# +    total = tensor.clone()
# +    dist.all_reduce(total)

# %% largest_for_sum of="right_async"
"""Wrong: takes the largest instead of the sum."""

# -    total = tensor.detach().clone()
# -    work = dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group, async_op=True)
# -    work.wait()
# +    total = tensor.clone()
# +    dist.all_reduce(total, op=dist.ReduceOp.MAX, group=group)

# %% mean_for_sum of="right_async"
"""Wrong: divides by the number of ranks, so it is the mean."""

# -    total = tensor.detach().clone()
# -    work = dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group, async_op=True)
# -    work.wait()
# -    return total
# +    total = tensor.clone()
# +    dist.all_reduce(total, group=group)
# +    return total / dist.get_world_size(group)

# %% sum_on_rank_zero_only of="right_async"
"""Wrong: reduces to rank 0, every other rank returns something else."""

# -    total = tensor.detach().clone()
# -    work = dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group, async_op=True)
# -    work.wait()
# +    total = tensor.clone()
# +    dist.reduce(total, group_dst=0, group=group)

# %% times_the_number_of_ranks of="right_async"
"""Wrong: multiplies instead of adding, right only when all ranks hold the same numbers."""

# -    total = tensor.detach().clone()
# -    work = dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group, async_op=True)
# -    work.wait()
# -    return total
# +    dist.barrier(group=group)
# +    return tensor * dist.get_world_size(group)

# %% right_fresh_buffer
"""Different: copies the input into a fresh buffer by hand."""

import torch
import torch.distributed as dist


def total_of(tensor, *, group):
    total = torch.empty_like(tensor)
    total.copy_(tensor)
    dist.all_reduce(total, group=group)
    return total


# %% public_numbers of="right_fresh_buffer"
"""Wrong: a constant that was right for one visible case."""

# -    total = torch.empty_like(tensor)
# -    total.copy_(tensor)
# -    dist.all_reduce(total, group=group)
# -    return total
# +    dist.all_reduce(torch.ones(1), group=group)
# +    return torch.full_like(tensor, 10.0)

# %% returns_its_input
"""Wrong: returns its own numbers, nothing was exchanged."""


def total_of(tensor, *, group):
    return tensor.clone()
