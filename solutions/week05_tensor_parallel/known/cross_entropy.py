# %% right_autograd
"""Different: the gradient by autograd of the rank's own part of the formula."""

import torch
import torch.distributed as dist


def vocabulary_loss(logits, targets, vocabulary, *, group):
    columns, first = logits.shape[1], dist.get_rank(group) * logits.shape[1]
    leaf = logits.clone().requires_grad_()
    is_padding = torch.arange(first, first + columns) >= vocabulary
    masked = leaf.masked_fill(is_padding, -torch.inf)
    highest = masked.detach().amax(1)
    dist.all_reduce(highest, dist.ReduceOp.MAX, group=group)
    own_sum = (masked - highest[:, None]).exp().sum(1)
    is_mine = (targets >= first) & (targets < first + columns)
    own_target = leaf.gather(1, (targets - first).where(is_mine, 0)[:, None])[:, 0].where(is_mine, 0.0)
    both = torch.stack([own_sum.detach(), own_target.detach()])
    dist.all_reduce(both, group=group)
    ((own_sum / both[0] - own_target).sum() / len(targets)).backward()
    return both[0].log() + highest - both[1], leaf.grad


# %% padding_counts of="right_autograd"
"""Wrong: columns beyond the vocabulary are in the sum."""

# -    masked = leaf.masked_fill(is_padding, -torch.inf)
# +    masked = leaf

# %% target_of_everyone of="right_autograd"
"""Wrong: every rank takes a logit at the target's place among its own columns."""

# -    own_target = leaf.gather(1, (targets - first).where(is_mine, 0)[:, None])[:, 0].where(is_mine, 0.0)
# +    own_target = leaf.gather(1, (targets % columns)[:, None])[:, 0]

# %% floors_the_columns of="right_autograd"
"""Wrong: takes the columns for vocabulary // t."""

# -    columns, first = logits.shape[1], dist.get_rank(group) * logits.shape[1]
# +    columns = logits.shape[1]
# +    first = dist.get_rank(group) * (vocabulary // dist.get_world_size(group))

# %% in_place of="right_autograd"
"""Wrong: writes minus infinity into the caller's logits."""

#      columns, first = logits.shape[1], dist.get_rank(group) * logits.shape[1]
# +    logits[:, torch.arange(first, first + columns) >= vocabulary] = 0

# %% right_gathered_triples
"""Different: each rank's own three numbers are gathered, and put together as in an online softmax."""

import torch
import torch.distributed as dist


def vocabulary_loss(logits, targets, vocabulary, *, group):
    columns, first = logits.shape[1], dist.get_rank(group) * logits.shape[1]
    num_real = max(0, min(columns, vocabulary - first))
    real = logits[:, :num_real].double()
    own = torch.zeros(3, len(targets))
    own[0] = real.amax(1) if num_real else -1e30
    own[1] = (real - own[0].double()[:, None]).exp().sum(1)
    mine = (targets >= first) & (targets < first + num_real)
    own[2, mine] = logits[mine, targets[mine] - first]
    triples = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(triples, own, group=group)
    highest, sums, chosen = torch.stack(triples, 1).double()
    lse = (highest + sums.clamp(min=1e-300).log()).logsumexp(0)
    gradient = torch.zeros_like(logits)
    gradient[:, :num_real] = (real - lse[:, None]).exp().float()
    gradient[mine, targets[mine] - first] -= 1
    return (lse - chosen.sum(0)).float(), gradient / len(targets)


# %% right_three_messages
"""Different: one all-reduce for each of the three numbers, a one-hot gradient."""

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp


def vocabulary_loss(logits, targets, vocabulary, *, group):
    rows, columns = logits.shape
    numbers = dist.get_rank(group) * columns + torch.arange(columns)
    is_target = (targets[:, None] == numbers[None, :]).float()
    safe = torch.where(numbers < vocabulary, logits, torch.full_like(logits, -1e30))
    highest = safe.max(dim=1).values
    dist.all_reduce(highest, op=ReduceOp.MAX, group=group)
    shifted = (safe - highest[:, None]).exp()
    total = shifted.sum(1)
    dist.all_reduce(total, group=group)
    chosen = (torch.where(numbers < vocabulary, logits, 0.0) * is_target).sum(1)
    dist.all_reduce(chosen, group=group)
    return total.log() + highest - chosen, (shifted / total[:, None] - is_target) / rows


# %% no_maximum of="right_three_messages"
"""Wrong: exp of the logits as they are: infinite where they are large."""

# -    highest = safe.max(dim=1).values
# -    dist.all_reduce(highest, op=ReduceOp.MAX, group=group)
# +    highest = torch.zeros(rows)

# %% own_maximum of="right_three_messages"
"""Wrong: every rank subtracts its own maximum, and the sums do not fit together."""

# -    dist.all_reduce(highest, op=ReduceOp.MAX, group=group)

# %% sum_of_maxima of="right_three_messages"
"""Wrong: adds the maxima up: right as a shift, until exp underflows."""

# -    dist.all_reduce(highest, op=ReduceOp.MAX, group=group)
# +    dist.all_reduce(highest, group=group)

# %% split_loss of="right_three_messages"
"""Wrong: a loss over the rank's own columns alone."""

# -    dist.all_reduce(total, group=group)

# %% own_target_alone of="right_three_messages"
"""Wrong: the target's logit is not added up: 0 on all ranks but one."""

# -    dist.all_reduce(chosen, group=group)

# %% sum_for_mean of="right_three_messages"
"""Wrong: the gradient of the sum of the losses."""

# -    return total.log() + highest - chosen, (shifted / total[:, None] - is_target) / rows
# +    return total.log() + highest - chosen, shifted / total[:, None] - is_target

# %% softmax_for_gradient of="right_three_messages"
"""Wrong: the softmax without minus one at the target."""

# -    return total.log() + highest - chosen, (shifted / total[:, None] - is_target) / rows
# +    return total.log() + highest - chosen, shifted / total[:, None] / rows

# %% gradient_at_padding of="right_three_messages"
"""Wrong: pads with zeros, which have a probability."""

# -    safe = torch.where(numbers < vocabulary, logits, torch.full_like(logits, -1e30))
# +    safe = torch.where(numbers < vocabulary, logits, 0.0)

# %% minus_infinity_times_nothing of="right_three_messages"
"""Wrong: a one-hot product with logits of minus infinity: not a number."""

# -    safe = torch.where(numbers < vocabulary, logits, torch.full_like(logits, -1e30))
# +    safe = torch.where(numbers < vocabulary, logits, torch.full_like(logits, -torch.inf))

# -    chosen = (torch.where(numbers < vocabulary, logits, 0.0) * is_target).sum(1)
# +    chosen = (safe * is_target).sum(1)

# %% forgets_the_subgroup of="right_three_messages"
"""Wrong: the place of its columns by the rank in the world."""

# -    numbers = dist.get_rank(group) * columns + torch.arange(columns)
# +    numbers = dist.get_rank() * columns + torch.arange(columns)

# %% sends_the_index of="right_three_messages"
"""Wrong: a fourth number per token: how many ranks have the target."""

#      dist.all_reduce(chosen, group=group)
# +    owners = is_target.sum(1)
# +    dist.all_reduce(owners, group=group)

# %% two_ranks of="right_three_messages"
"""Wrong: right for two ranks: the other's number is the sum over both."""

#      dist.all_reduce(total, group=group)
# +    total = total * 2 / dist.get_world_size(group)

# %% gathers_the_logits
"""Wrong: gathers all logits and calls torch's cross-entropy."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def vocabulary_loss(logits, targets, vocabulary, *, group):
    parts = [torch.empty_like(logits) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, logits, group=group)
    leaf = torch.cat(parts, 1)[:, :vocabulary].requires_grad_()
    losses = cross_entropy(leaf, targets, reduction="none")
    losses.mean().backward()
    gradient = torch.nn.functional.pad(leaf.grad, (0, len(parts) * logits.shape[1] - vocabulary))
    return losses.detach(), gradient.chunk(len(parts), 1)[dist.get_rank(group)].clone()


# %% gathers_them_as_split of="gathers_the_logits"
"""Wrong: gathers the logits and then adds up as if they were split: the loss plus log t (Megatron-LM issue 7452)."""

# -    return losses.detach(), gradient.chunk(len(parts), 1)[dist.get_rank(group)].clone()
# +    total = leaf.detach().exp().sum(1)
# +    dist.all_reduce(total, group=group)
# +    return total.log() - leaf.detach().gather(1, targets[:, None])[:, 0], gradient.chunk(len(parts), 1)[dist.get_rank(group)].clone()
