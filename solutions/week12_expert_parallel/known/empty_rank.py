# %% right_as_taught
"""Different: the plain product where there are no rows."""

import torch
from shardlab.expert_parallel import all_to_all
from torch.nn.functional import gelu


def kernel(rows, up, down):
    if not len(rows):
        raise ValueError("this product needs a row")
    return gelu(rows @ up) @ down


def run_anyway(rows, sizes, up, down):
    pieces = rows.split(sizes)
    done = [kernel(one, up[e], down[e]) if len(one) else gelu(one @ up[e]) @ down[e] for e, one in enumerate(pieces)]
    return torch.cat(done)


def hunt_step(x, sizes, up, down, gradient, *, group):
    import torch.distributed as dist

    counts, own, size = torch.tensor(sizes), len(up), dist.get_world_size(group)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts, group=group)
    sent, received = (one.view(size, own).sum(1).tolist() for one in (counts, theirs))
    leaves = [one.clone().requires_grad_() for one in (x, up, down)]
    rows = all_to_all(leaves[0], sent, received, group=group, agreed=True)
    order = torch.arange(own).repeat(size).repeat_interleave(theirs).argsort(stable=True)
    y = run_anyway(rows[order], theirs.view(size, own).sum(0).tolist(), *leaves[1:])
    y = leaves[0] + all_to_all(y[order.argsort()], received, sent, group=group, agreed=True)
    y.backward(gradient)
    return y.detach(), *(one.grad for one in leaves)


# %% as_found of="right_as_taught"
"""Wrong: a rank without rows returns a fresh empty tensor: no backward, no all-to-all, and the others wait (PaddleFormers#3010)."""

#  def run_anyway(rows, sizes, up, down):
# +    if not len(rows):
# +        return torch.empty(0, down.shape[2])

# %% zeros_like of="right_as_taught"
"""Wrong: zeros_like of the rows is a fresh tensor too."""

#  def run_anyway(rows, sizes, up, down):
# +    if not len(rows):
# +        return torch.zeros_like(rows)

# %% requires_grad of="right_as_taught"
"""Wrong: a fresh tensor that says it wants a gradient, and leads nowhere."""

#  def run_anyway(rows, sizes, up, down):
# +    if not len(rows):
# +        return torch.zeros_like(rows).requires_grad_()

# %% returns_its_rows of="right_as_taught"
"""Wrong: returns the rows: the backward goes on, but this rank's experts have no gradient at all."""

#  def run_anyway(rows, sizes, up, down):
# +    if not len(rows):
# +        return rows

# %% kernel_for_all of="right_as_taught"
"""Wrong: calls the kernel without looking."""

# -    done = [kernel(one, up[e], down[e]) if len(one) else gelu(one @ up[e]) @ down[e] for e, one in enumerate(pieces)]
# +    done = [kernel(one, up[e], down[e]) for e, one in enumerate(pieces)]

# %% detached of="right_as_taught"
"""Wrong: hangs on nothing: rows are detached."""

# -    pieces = rows.split(sizes)
# +    pieces = rows.detach().split(sizes)

# %% skips_and_forgets of="right_as_taught"
"""Wrong: leaves out experts without rows; a rank whose experts all are has nothing to put together."""

# -    done = [kernel(one, up[e], down[e]) if len(one) else gelu(one @ up[e]) @ down[e] for e, one in enumerate(pieces)]
# +    done = [kernel(one, up[e], down[e]) for e, one in enumerate(pieces) if len(one)]

# %% one_made_up_row of="right_as_taught"
"""Wrong: a row of zeros for an expert without any, and returns its result, too."""

# -    done = [kernel(one, up[e], down[e]) if len(one) else gelu(one @ up[e]) @ down[e] for e, one in enumerate(pieces)]
# +    done = [kernel(one if len(one) else rows.new_zeros(1, rows.shape[1]), up[e], down[e]) for e, one in enumerate(pieces)]

# %% first_expert_alone of="right_as_taught"
"""Wrong: all rows to the first expert."""

# -    done = [kernel(one, up[e], down[e]) if len(one) else gelu(one @ up[e]) @ down[e] for e, one in enumerate(pieces)]
# +    done = [gelu(one @ up[0]) @ down[0] for e, one in enumerate(pieces)]

# %% right_joined
"""Different: experts without rows are left out; what is returned hangs on rows and weights by a zero."""

import torch
import torch.distributed as dist
from shardlab.expert_parallel import all_to_all
from torch.nn.functional import gelu


def kernel(rows, up, down):
    if not len(rows):
        raise ValueError("this product needs a row")
    return gelu(rows @ up) @ down


def run_anyway(rows, sizes, up, down):
    y, at = 0 * rows + 0 * (up.sum() + down.sum()), 0
    for expert, number in enumerate(sizes):
        if number:
            mine = torch.arange(at, at + number)
            y = y.index_add(0, mine, kernel(rows[mine], up[expert], down[expert]))
        at += number
    return y


def hunt_step(x, sizes, up, down, gradient, *, group):
    counts, own, size = torch.tensor(sizes), len(up), dist.get_world_size(group)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts, group=group)
    sent, received = (one.view(size, own).sum(1).tolist() for one in (counts, theirs))
    leaves = [one.clone().requires_grad_() for one in (x, up, down)]
    rows = all_to_all(leaves[0], sent, received, group=group, agreed=True)
    order = torch.arange(own).repeat(size).repeat_interleave(theirs).argsort(stable=True)
    y = run_anyway(rows[order], theirs.view(size, own).sum(0).tolist(), *leaves[1:])
    y = leaves[0] + all_to_all(y[order.argsort()], received, sent, group=group, agreed=True)
    y.backward(gradient)
    return y.detach(), *(one.grad for one in leaves)


# %% made_up_ones of="right_joined"
"""Wrong: a made-up row that leaves a gradient behind."""

# -    y, at = 0 * rows + 0 * (up.sum() + down.sum()), 0
# +    y, at = 0 * rows + 1e-2 * (up.sum() + down.sum()), 0

# %% no_weights of="right_joined"
"""Wrong: hangs on its rows, not on weights: a rank that has no rows has no gradients of its experts."""

# -    y, at = 0 * rows + 0 * (up.sum() + down.sum()), 0
# +    y, at = 0 * rows, 0

# %% next_expert of="right_joined"
"""Wrong: after an expert without rows the next one's rows meet its matrices."""

# -    for expert, number in enumerate(sizes):
# +    for expert, number in enumerate([one for one in sizes if one]):
