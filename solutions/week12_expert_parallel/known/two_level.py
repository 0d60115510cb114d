# %% right_as_taught
"""Different: the layer of one level, inside the node, with one choice for each row."""

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


def two_level_layer(x, experts, weights, up, down, *, across, inside):
    per_node = len(up) * dist.get_world_size(inside)
    num_nodes, node = dist.get_world_size(across), dist.get_rank(across)
    wanted = torch.zeros(num_nodes, len(x), dtype=torch.bool)
    for number in range(num_nodes):
        wanted[number] = (experts // per_node == number).any(1)
    sent, token = wanted.sum(1).tolist(), wanted.nonzero()[:, 1]
    copies, received = exchange(x[token], sent, group=across)
    theirs, _ = exchange(experts[token], sent, group=across)
    scales, _ = exchange(weights[token], sent, group=across)
    here, choice = (theirs // per_node == node).nonzero(as_tuple=True)
    chosen, scale = theirs[here, choice][:, None] % per_node, scales[here, choice][:, None]
    done = expert_layer(copies[here], chosen, scale, up, down, group=inside)
    sums = torch.zeros_like(copies).index_add(0, here, done)
    back, _ = exchange(sums, received, group=across)
    return torch.zeros_like(x).index_add(0, token, back)


def two_level_step(x, experts, weights, up, down, gradient, *, across, inside):
    leaves = [one.clone().requires_grad_() for one in (x, weights)]
    y = two_level_layer(leaves[0], experts, leaves[1], up, down, across=across, inside=inside)
    return y.detach(), *torch.autograd.grad(y, leaves, gradient)


# %% one_level of="right_as_taught"
"""Wrong: a copy for each choice across nodes, as if there were one level."""

#      sent, token = wanted.sum(1).tolist(), wanted.nonzero()[:, 1]
# +    k = experts.shape[1]
# +    order = experts.flatten().argsort(stable=True)
# +    sent = torch.bincount(experts.flatten() // per_node, minlength=num_nodes).tolist()
# +    token = order // k

# -    theirs, _ = exchange(experts[token], sent, group=across)
# -    scales, _ = exchange(weights[token], sent, group=across)
# -    here, choice = (theirs // per_node == node).nonzero(as_tuple=True)
# -    chosen, scale = theirs[here, choice][:, None] % per_node, scales[here, choice][:, None]
# +    theirs, _ = exchange(experts.flatten()[order], sent, group=across)
# +    scales, _ = exchange(weights.flatten()[order], sent, group=across)
# +    here = torch.arange(len(copies))
# +    chosen, scale = theirs[:, None] % per_node, scales[:, None]

# %% to_all_nodes of="right_as_taught"
"""Wrong: a copy to every node, whether it has experts of the token or not."""

# -        wanted[number] = (experts // per_node == number).any(1)
# +        wanted[number] = True

# %% first_choice_alone of="right_as_taught"
"""Wrong: a token goes to the node of its first choice."""

# -        wanted[number] = (experts // per_node == number).any(1)
# +        wanted[number] = (experts[:, 0] // per_node == number)

# %% first_expert_on_the_node of="right_as_taught"
"""Wrong: a copy meets one expert of the node."""

# -    here, choice = (theirs // per_node == node).nonzero(as_tuple=True)
# +    fits = theirs // per_node == node
# +    here, choice = torch.arange(len(theirs)), fits.int().argmax(1)

# %% all_choices_here of="right_as_taught"
"""Wrong: all k choices meet this node's experts."""

# -    here, choice = (theirs // per_node == node).nonzero(as_tuple=True)
# +    here, choice = (theirs >= 0).nonzero(as_tuple=True)

# %% sums_lost of="right_as_taught"
"""Wrong: of a copy's experts the last one's result remains."""

# -    sums = torch.zeros_like(copies).index_add(0, here, done)
# +    sums = torch.zeros_like(copies).index_put((here,), done)

# %% nodes_not_added of="right_as_taught"
"""Wrong: of a token's nodes the last one's sum remains."""

# -    return torch.zeros_like(x).index_add(0, token, back)
# +    return torch.zeros_like(x).index_put((token,), back)

# %% results_not_added of="right_as_taught"
"""Wrong: every result travels back on its own."""

# -    sums = torch.zeros_like(copies).index_add(0, here, done)
# -    back, _ = exchange(sums, received, group=across)
# -    return torch.zeros_like(x).index_add(0, token, back)
# +    whole = torch.zeros(len(copies), experts.shape[1], x.shape[1]).index_put((here, choice), done)
# +    back, _ = exchange(whole.flatten(1), received, group=across)
# +    return torch.zeros_like(x).index_add(0, token, back.view(len(token), *whole.shape[1:]).sum(1))

# %% weights_at_home of="right_as_taught"
"""Wrong: weights stay at home: sums of unweighted results come back."""

# -    scales, _ = exchange(weights[token], sent, group=across)
# +    scales = torch.full(theirs.shape, 1 / theirs.shape[1]) + 0 * weights.sum()

# %% weights_detached of="right_as_taught"
"""Wrong: weights travel where autograd does not see it: the router learns nothing."""

# -    scales, _ = exchange(weights[token], sent, group=across)
# +    scales = moved(weights.detach()[token], sent, received, across) + 0 * weights.sum()

# %% groups_swapped of="right_as_taught"
"""Wrong: across and inside swapped."""

#  def two_level_layer(x, experts, weights, up, down, *, across, inside):
# +    across, inside = inside, across

# %% node_of_rank_zero of="right_as_taught"
"""Wrong: takes every node for the first."""

# -    num_nodes, node = dist.get_world_size(across), dist.get_rank(across)
# +    num_nodes, node = dist.get_world_size(across), 0

# %% two_nodes of="right_as_taught"
"""Wrong: right for two nodes."""

# -    for number in range(num_nodes):
# +    for number in range(min(2, num_nodes)):

# %% visits_twice of="right_as_taught"
"""Wrong: copies cross once for the rows and once more for the gate."""

#      copies, received = exchange(x[token], sent, group=across)
# +    copies, received = exchange(x[token], sent, group=across)

# %% empty_node of="right_as_taught"
"""Wrong: a rank that has no copies on its node returns a fresh tensor.

Not in sight: in sight every rank has copies; a node that no token visits is drawn
"""

# -    sums = torch.zeros_like(copies).index_add(0, here, done)
# +    sums = torch.zeros_like(copies).index_add(0, here, done) if len(here) else torch.zeros(copies.shape)

# %% changes_its_input of="right_as_taught"
"""Wrong: works in the gradient it was given."""

#  def two_level_step(x, experts, weights, up, down, gradient, *, across, inside):
# +    gradient.mul_(1 + 1e-6)

# %% borrows_the_answer of="right_as_taught"
"""Wrong: calls the package's own."""

#  import torch.distributed as dist
# +from shardlab.expert_parallel.two_level import nodes_touched

# -    return torch.zeros_like(x).index_add(0, token, back)
# +    return nodes_touched and torch.zeros_like(x).index_add(0, token, back)

# %% right_gathered
"""Different: inside the node all copies are gathered and each rank adds what its experts give; backward by hand."""

import torch
import torch.distributed as dist
from torch.nn.functional import gelu


def to_ranks(x, sent, received, group):
    came = x.new_empty(sum(received), *x.shape[1:])
    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
    return came


def on_node(x, group):
    """All ranks' rows, and how many they are."""
    size = dist.get_world_size(group)
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(x)]), group=group)
    lengths = [int(one) for one in lengths]
    padded = x.new_zeros(max(1, *lengths), *x.shape[1:])
    padded[: len(x)] = x
    whole = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(whole, padded, group=group)
    return torch.cat([one[:n] for one, n in zip(whole, lengths, strict=True)]), lengths


def two_level_step(x, experts, weights, up, down, gradient, *, across, inside):
    own, size = len(up), dist.get_world_size(inside)
    num_nodes, per_node = dist.get_world_size(across), own * dist.get_world_size(inside)
    wanted = (experts.unsqueeze(0) // per_node == torch.arange(num_nodes)[:, None, None]).any(2)
    token = wanted.nonzero()[:, 1]
    counts = wanted.sum(1)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts, group=across)
    out, came = (counts.tolist(), theirs.tolist(), across), (theirs.tolist(), counts.tolist(), across)
    copies = to_ranks(x[token], *out)
    chosen, scales = to_ranks(experts[token].int(), *out).long(), to_ranks(weights[token], *out)

    first = (dist.get_rank(across) * size + dist.get_rank(inside)) * own
    rows, lengths = on_node(copies, inside)
    leaves = [one.requires_grad_() for one in (rows, on_node(scales, inside)[0])]
    whose = on_node(chosen, inside)[0] - first
    mine = (whose >= 0) & (whose < own)
    at = whose.clamp(0, own - 1)
    inner = gelu(torch.einsum("mh,mkhf->mkf", leaves[0], up[at]))
    results = torch.einsum("mkf,mkfh,mk->mh", inner, down[at], leaves[1] * mine)
    total = results.detach().clone()
    dist.all_reduce(total, group=inside)
    home = to_ranks(total.split(lengths)[dist.get_rank(inside)], *came)
    y = torch.zeros_like(x).index_add_(0, token, home)

    of_results = on_node(to_ranks(gradient[token], *out), inside)[0]
    found = torch.autograd.grad(results, leaves, of_results)
    back = []
    for partial, like in zip(found, (x, weights), strict=True):
        one = partial.contiguous()
        dist.all_reduce(one, group=inside)
        own_rows = to_ranks(one.split(lengths)[dist.get_rank(inside)], *came)
        back.append(torch.zeros_like(like).index_add_(0, token, own_rows))
    return y, *back


# %% through_one_gate of="right_gathered"
"""Wrong: all-gathers tokens across nodes instead of sending copies."""

#      copies = to_ranks(x[token], *out)
# +    on_node(x, across)
