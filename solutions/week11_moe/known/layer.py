# %% right_as_taught
"""Different: choices as lists of places, an index for each expert."""

import torch
from torch.nn.functional import gelu


def kept(experts, weights, rows, by_score):
    stays = torch.zeros(experts.shape, dtype=torch.bool)
    for expert in range(int(experts.max()) + 1 if experts.numel() else 0):
        token, place = torch.where(experts == expert)
        order = torch.arange(len(token))
        if by_score:
            order = weights[token, place].argsort(descending=True)
        stays[token[order[:rows]], place[order[:rows]]] = True
    return stays


def moe_layer(x, experts, weights, up, down, shared_up, shared_down, rows, by_score):
    stays = kept(experts, weights, rows, by_score)
    y = gelu(x @ shared_up) @ shared_down
    for expert in range(len(up)):
        token, place = torch.where((experts == expert) & stays)
        output = gelu(x[token] @ up[expert]) @ down[expert]
        y = y.index_add(0, token, output * weights[token, place, None])
    return y


def layer_step(x, experts, weights, up, down, shared_up, shared_down, rows, by_score, gradient):
    leaves = [one.clone().requires_grad_() for one in (x, weights, up, down, shared_up, shared_down)]
    y = moe_layer(leaves[0], experts, *leaves[1:], rows, by_score)
    return y.detach(), *torch.autograd.grad(y, leaves, gradient)


# %% all_experts_on_all_tokens of="right_as_taught"
"""Wrong: computes every expert on every token, and masks the result."""

# -    for expert in range(len(up)):
# -        token, place = torch.where((experts == expert) & stays)
# -        output = gelu(x[token] @ up[expert]) @ down[expert]
# -        y = y.index_add(0, token, output * weights[token, place, None])
# -    return y
# +    each = gelu(x @ up) @ down
# +    of_expert = torch.zeros(len(x), len(up)).scatter(1, experts, weights * stays)
# +    return y + torch.einsum("te,eth->th", of_expert, each)

# %% expert_by_expert_on_all_tokens of="right_as_taught"
"""Wrong: a loop over experts, each on every token."""

# -        token, place = torch.where((experts == expert) & stays)
# -        output = gelu(x[token] @ up[expert]) @ down[expert]
# -        y = y.index_add(0, token, output * weights[token, place, None])
# +        weight = (weights * ((experts == expert) & stays)).sum(1, keepdim=True)
# +        y = y + weight * (gelu(x @ up[expert]) @ down[expert])

# %% no_drops of="right_as_taught"
"""Wrong: everything stays."""

# -        stays[token[order[:rows]], place[order[:rows]]] = True
# +        stays[token[order], place[order]] = True

# %% drops_the_first of="right_as_taught"
"""Wrong: the last tokens stay."""

# -        order = torch.arange(len(token))
# +        order = torch.arange(len(token)).flip(0)

# %% always_by_token of="right_as_taught"
"""Wrong: never looks at weights."""

# -        if by_score:
# +        if False:

# %% always_by_score of="right_as_taught"
"""Wrong: always looks at weights."""

# -        if by_score:
# +        if True:

# %% smallest_weights of="right_as_taught"
"""Wrong: the smallest weights stay."""

# -            order = weights[token, place].argsort(descending=True)
# +            order = weights[token, place].argsort()

# %% one_row_too_many of="right_as_taught"
"""Wrong: rows + 1."""

# -        stays[token[order[:rows]], place[order[:rows]]] = True
# +        stays[token[order[: rows + 1]], place[order[: rows + 1]]] = True

# %% drops_whole_tokens of="right_as_taught"
"""Wrong: a token that loses one choice loses all."""

# -    return stays
# +    return stays.all(1, keepdim=True).expand_as(stays).clone()

# %% dropped_all_the_same of="right_as_taught"
"""Wrong: the layer forgets who was dropped."""

# -        token, place = torch.where((experts == expert) & stays)
# +        token, place = torch.where(experts == expert)

# %% dropped_share_spread of="right_as_taught"
"""Wrong: renormalises what is left."""

#      y = gelu(x @ shared_up) @ shared_down
# +    weights = weights * weights.sum(1, keepdim=True) / (weights * stays).sum(1, keepdim=True).clamp(min=1e-9)

# %% no_shared_expert of="right_as_taught"
"""Wrong: forgets the shared expert."""

# -    y = gelu(x @ shared_up) @ shared_down
# +    y = 0 * (gelu(x @ shared_up) @ shared_down)

# %% no_weights of="right_as_taught"
"""Wrong: adds outputs without their weights."""

# -        y = y.index_add(0, token, output * weights[token, place, None])
# +        y = y.index_add(0, token, output + 0 * weights[token, place, None])

# %% weights_without_gradient of="right_as_taught"
"""Wrong: the router learns nothing."""

# -        y = y.index_add(0, token, output * weights[token, place, None])
# +        y = y.index_add(0, token, output * weights[token, place, None].detach() + 0 * weights[token, place, None])

# %% overwrites of="right_as_taught"
"""Wrong: a token's last row replaces the others."""

# -        y = y.index_add(0, token, output * weights[token, place, None])
# +        y = y.index_copy(0, token, output * weights[token, place, None])

# %% skips_empty_experts of="right_as_taught"
"""Wrong: an expert without a token leaves no graph."""

#          token, place = torch.where((experts == expert) & stays)
# +        if not len(token):
# +            continue

# %% weights_before of="right_as_taught"
"""Wrong: scales the input, not the output."""

# -        output = gelu(x[token] @ up[expert]) @ down[expert]
# -        y = y.index_add(0, token, output * weights[token, place, None])
# +        output = gelu((x[token] * weights[token, place, None]) @ up[expert]) @ down[expert]
# +        y = y.index_add(0, token, output)

# %% wrong_expert of="right_as_taught"
"""Wrong: rows are sorted, experts are not: off by one."""

# -        output = gelu(x[token] @ up[expert]) @ down[expert]
# +        output = gelu(x[token] @ up[expert]) @ down[expert - 1]

# %% right_batched
"""Different: sorted, filled up to the fullest expert, one batched product; drops by counting in a one-hot table."""

import torch
from torch.nn.functional import gelu


def kept(experts, weights, rows, by_score):
    flat = experts.flatten()
    order = torch.arange(len(flat))
    if by_score:
        order = weights.flatten().sort(descending=True, stable=True).indices
    if not len(flat):
        return torch.zeros_like(experts, dtype=torch.bool)
    table = torch.nn.functional.one_hot(flat[order])
    place = (table.cumsum(0) * table).sum(-1) - 1
    stays = torch.empty(len(flat), dtype=torch.bool)
    stays[order] = place < rows
    return stays.view_as(experts)


def layer_step(x, experts, weights, up, down, shared_up, shared_down, rows, by_score, gradient):
    leaves = [one.clone().requires_grad_() for one in (x, weights, up, down, shared_up, shared_down)]
    x, weights, up, down, shared_up, shared_down = leaves
    num, k = len(up), experts.shape[1]
    stays = kept(experts, weights.detach(), rows, by_score).flatten()
    choice = stays.nonzero().flatten()
    choice = choice[experts.flatten()[choice].argsort(stable=True)]
    mine = experts.flatten()[choice]
    sizes = torch.bincount(mine, minlength=num)
    place = torch.arange(len(choice)) - (sizes.cumsum(0) - sizes)[mine]
    batch = x.new_zeros(num, max(1, int(sizes.max())), x.shape[1]).index_put((mine, place), x[choice // k])
    out = torch.bmm(gelu(torch.bmm(batch, up)), down)[mine, place]
    y = torch.zeros_like(x).index_add(0, choice // k, out * weights.flatten()[choice, None])
    y = y + gelu(x @ shared_up) @ shared_down
    return y.detach(), *torch.autograd.grad(y, leaves, gradient)
