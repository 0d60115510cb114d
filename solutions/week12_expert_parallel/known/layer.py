# %% right_as_taught
"""Different: rows in the order of their experts, the experts' numbers travel along."""

import torch
import torch.distributed as dist
from torch.nn.functional import gelu


def moved(x, sent, received, group):
    came = x.new_empty(sum(received), *x.shape[1:])
    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
    return came


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, sent, received, group):
        ctx.way = received, sent, group
        return moved(x, sent, received, group)

    @staticmethod
    def backward(ctx, gradient):
        return moved(gradient, *ctx.way), None, None, None


def exchange(x, sent, *, group):
    counts = torch.tensor(sent)
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts, group=group)
    received = received.tolist()
    return AllToAll.apply(x, sent, received, group), received


def run_experts(rows, numbers, up, down):
    order = numbers.argsort(stable=True)
    pieces = rows[order].split(torch.bincount(numbers, minlength=len(up)).tolist())
    done = torch.cat([gelu(piece @ up[e]) @ down[e] for e, piece in enumerate(pieces)])
    return done[order.argsort()]


def expert_layer(x, experts, weights, up, down, *, group):
    own, k, chosen = len(up), experts.shape[1], experts.flatten()
    order = chosen.argsort(stable=True)
    sent = torch.bincount(chosen // own, minlength=dist.get_world_size(group)).tolist()
    rows, received = exchange(x[order // k], sent, group=group)
    numbers, _ = exchange(chosen[order] % own, sent, group=group)
    back, _ = exchange(run_experts(rows, numbers, up, down), received, group=group)
    y = back[order.argsort()].view(*experts.shape, x.shape[1])
    return (y * weights[..., None]).sum(1)


def layer_step(x, experts, weights, up, down, gradient, *, group):
    leaves = [one.clone().requires_grad_() for one in (x, weights, up, down)]
    y = expert_layer(leaves[0], experts, *leaves[1:], group=group)
    return y.detach(), *torch.autograd.grad(y, leaves, gradient)


# %% router_learns_nothing of="right_as_taught"
"""Wrong: the weighted sum in numbers that autograd does not follow: the router gets no gradient from its experts."""

# -    return (y * weights[..., None]).sum(1)
# +    return (y * weights.detach()[..., None]).sum(1) + 0 * weights.sum()

# %% unweighted of="right_as_taught"
"""Wrong: adds up without weights."""

# -    return (y * weights[..., None]).sum(1)
# +    return y.sum(1) + 0 * weights.sum()

# %% not_put_back of="right_as_taught"
"""Wrong: rows come home and stay in the order of their experts."""

# -    y = back[order.argsort()].view(*experts.shape, x.shape[1])
# +    y = back.view(*experts.shape, x.shape[1])

# %% order_twice of="right_as_taught"
"""Wrong: puts rows back by the order instead of its inverse."""

# -    y = back[order.argsort()].view(*experts.shape, x.shape[1])
# +    y = back[order].view(*experts.shape, x.shape[1])

# %% wrong_tokens of="right_as_taught"
"""Wrong: row i is a copy of token order[i] % T."""

# -    rows, received = exchange(x[order // k], sent, group=group)
# +    rows, received = exchange(x[order % len(x)], sent, group=group)

# %% all_to_own_first_expert of="right_as_taught"
"""Wrong: every row that arrives meets the first expert."""

# -    numbers, _ = exchange(chosen[order] % own, sent, group=group)
# +    numbers, _ = exchange(0 * chosen[order], sent, group=group)

# %% numbers_unsorted of="right_as_taught"
"""Wrong: the experts' numbers travel in the order of the tokens."""

# -    numbers, _ = exchange(chosen[order] % own, sent, group=group)
# +    numbers, _ = exchange(chosen % own, sent, group=group)

# %% global_numbers of="right_as_taught"
"""Wrong: sends the experts' numbers among all and takes them for its own."""

# -    numbers, _ = exchange(chosen[order] % own, sent, group=group)
# +    numbers, _ = exchange(chosen[order].clamp(max=own - 1), sent, group=group)

# %% capacity of="right_as_taught"
"""Wrong: drops what is more than twice the mean."""

# -    y = back[order.argsort()].view(*experts.shape, x.shape[1])
# +    load = torch.bincount(chosen, minlength=own * len(sent))
# +    turn = torch.arange(len(chosen)) - (load.cumsum(0) - load)[chosen[order]]
# +    kept = (turn < 1 + len(chosen) / len(load)).to(x.dtype)
# +    y = (back * kept[:, None])[order.argsort()].view(*experts.shape, -1)

# %% empty_tensor of="right_as_taught"
"""Wrong: a rank without rows returns a fresh tensor: it has no backward, and the others wait (PaddleFormers#3010)."""

#  def run_experts(rows, numbers, up, down):
# +    if not len(rows):
# +        return torch.empty(0, rows.shape[1])

# %% quiet_rank_leaves of="right_as_taught"
"""Wrong: a rank without tokens returns at once."""

#  def expert_layer(x, experts, weights, up, down, *, group):
# +    if not len(x):
# +        return x

# %% own_tokens_alone of="right_as_taught"
"""Wrong: every rank keeps its rows, whoever has the expert."""

# -    came = x.new_empty(sum(received), *x.shape[1:])
# -    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
# -    return came
# +    return torch.cat([x, x.new_zeros(sum(received), *x.shape[1:])])[: sum(received)]

# %% forgets_the_subgroup of="right_as_taught"
"""Wrong: counts of the whole world."""

# -    sent = torch.bincount(chosen // own, minlength=dist.get_world_size(group)).tolist()
# +    sent = torch.bincount(chosen // own, minlength=dist.get_world_size()).tolist()

# %% rows_twice of="right_as_taught"
"""Wrong: sends the rows once more, to be sure."""

#      numbers, _ = exchange(chosen[order] % own, sent, group=group)
# +    rows, received = exchange(x[order // k], sent, group=group)

# %% changes_its_input of="right_as_taught"
"""Wrong: scales the gradient in place."""

#  def layer_step(x, experts, weights, up, down, gradient, *, group):
# +    gradient.mul_(1 + 1e-6)

# %% borrows_the_answer of="right_as_taught"
"""Wrong: calls the package's own."""

#  import torch.distributed as dist
# +from shardlab.expert_parallel import combined

# -    y = back[order.argsort()].view(*experts.shape, x.shape[1])
# +    y = combined and back[order.argsort()].view(*experts.shape, x.shape[1])

# %% guesses_a_size of="right_as_taught"
"""Wrong: a view that must guess its last size: of nothing it cannot (Megatron#3626)."""

# -    y = back[order.argsort()].view(*experts.shape, x.shape[1])
# +    y = back[order.argsort()].view(*experts.shape, -1)

# %% right_by_hand
"""Different: counts for every expert, rows put in order by chunks, forward and backward by hand."""

import torch
import torch.distributed as dist
from torch.nn.functional import gelu


def to_ranks(x, sent, received, group):
    came = x.new_empty(sum(received), x.size(1))
    dist.all_to_all_single(came, x.contiguous(), output_split_sizes=received, input_split_sizes=sent, group=group)
    return came


def layer_step(x, experts, weights, up, down, gradient, *, group):
    size, own, (tokens, k) = dist.get_world_size(group), up.size(0), experts.shape
    place = experts.reshape(-1).sort(stable=True).indices
    per_expert = torch.bincount(experts.reshape(-1), minlength=size * own)
    theirs = torch.empty_like(per_expert)
    dist.all_to_all_single(theirs, per_expert, group=group)
    theirs = theirs.view(size, own)
    sent, received = per_expert.view(size, own).sum(1).tolist(), theirs.sum(1).tolist()
    rows = to_ranks(x[place // k], sent, received, group)
    whose = torch.arange(own).repeat(size).repeat_interleave(theirs.reshape(-1))
    leaves = [one.clone().requires_grad_() for one in (rows, up, down)]
    inner = gelu(torch.einsum("rh,rhf->rf", leaves[0], leaves[1][whose]))
    results = torch.einsum("rf,rfh->rh", inner, leaves[2][whose])
    home = to_ranks(results.detach(), received, sent, group)
    by_choice = torch.empty(tokens * k, x.size(1))
    by_choice[place] = home
    by_choice = by_choice.view(tokens, k, x.size(1))
    y = torch.einsum("tkh,tk->th", by_choice, weights)
    of_weights = torch.einsum("tkh,th->tk", by_choice, gradient)
    of_rows = (gradient[:, None] * weights[..., None]).reshape(tokens * k, x.size(1))[place]
    found = torch.autograd.grad(results, leaves, to_ranks(of_rows, sent, received, group))
    of_copies = torch.empty(tokens * k, x.size(1))
    of_copies[place] = to_ranks(found[0], received, sent, group)
    return y, of_copies.view(tokens, k, x.size(1)).sum(1), of_weights, found[1], found[2]


# %% gathers_tokens of="right_by_hand"
"""Wrong: gathers all tokens on every rank, computes its experts, and adds up."""

#      by_choice = by_choice.view(tokens, k, x.size(1))
# +    everything = torch.zeros(size, 64, x.size(1))
# +    everything[dist.get_rank(group), : len(x)] = x
# +    dist.all_reduce(everything, group=group)

# %% means_experts of="right_by_hand"
"""Wrong: divides the experts' gradients by the ranks."""

# -    return y, of_copies.view(tokens, k, x.size(1)).sum(1), of_weights, found[1], found[2]
# +    return y, of_copies.view(tokens, k, x.size(1)).sum(1), of_weights, found[1] / size, found[2] / size

# %% copies_not_added of="right_by_hand"
"""Wrong: a token's gradient is that of its first copy."""

# -    return y, of_copies.view(tokens, k, x.size(1)).sum(1), of_weights, found[1], found[2]
# +    return y, of_copies.view(tokens, k, x.size(1))[:, 0], of_weights, found[1], found[2]
