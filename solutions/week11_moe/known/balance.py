# %% right_by_comparing
"""Different: a loop over experts, Python's whole numbers."""

import torch


def balance_loss(scores, experts):
    num = scores.shape[1]
    shares = scores / scores.sum(1, keepdim=True)
    loss = scores.new_zeros(())
    for expert in range(num):
        loss = loss + (experts == expert).sum() * shares[:, expert].mean()
    return loss * num / experts.numel()


def loss_step(scores, experts):
    leaf = scores.clone().requires_grad_()
    loss = balance_loss(leaf, experts)
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


def moved_bias(bias, load, rate):
    total, num, moved = sum(load.tolist()), len(load), bias.clone()
    for expert, one in enumerate(load.tolist()):
        if num * one < total:
            moved[expert] += rate
        elif num * one > total:
            moved[expert] -= rate
    return moved


# %% right_one_hot
"""Different: a one-hot table, a dot product, counts in float64."""

import torch
from torch.nn.functional import normalize, one_hot


def balance_loss(scores, experts):
    table = one_hot(experts, scores.shape[1]).sum((0, 1)).to(scores.dtype)
    means = normalize(scores, p=1, dim=-1).sum(0)
    return scores.shape[1] * torch.dot(table, means) / (experts.numel() * len(scores))


def loss_step(scores, experts):
    leaf = scores.clone().requires_grad_()
    loss = balance_loss(leaf, experts)
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


def moved_bias(bias, load, rate):
    load = load.double()
    return bias + rate * torch.sign(load.mean() - load).to(bias.dtype)


# %% without_e of="right_one_hot"
"""Wrong: forgets the factor E."""

# -    return scores.shape[1] * torch.dot(table, means) / (experts.numel() * len(scores))
# +    return torch.dot(table, means) / (experts.numel() * len(scores))

# %% without_k of="right_one_hot"
"""Wrong: a share of tokens, k times too large, as some codes have it."""

# -    return scores.shape[1] * torch.dot(table, means) / (experts.numel() * len(scores))
# +    return scores.shape[1] * torch.dot(table, means) / (len(scores) * len(scores))

# %% sum_for_mean of="right_one_hot"
"""Wrong: the sum of scores."""

# -    return scores.shape[1] * torch.dot(table, means) / (experts.numel() * len(scores))
# +    return scores.shape[1] * torch.dot(table, means) / experts.numel()

# %% not_divided of="right_one_hot"
"""Wrong: sigmoids as they are."""

# -    means = normalize(scores, p=1, dim=-1).sum(0)
# +    means = scores.sum(0)

# %% division_without_gradient of="right_one_hot"
"""Wrong: no gradient through a token's sum."""

# -    means = normalize(scores, p=1, dim=-1).sum(0)
# +    means = (scores / scores.sum(-1, keepdim=True).detach()).sum(0)

# %% length_two of="right_one_hot"
"""Wrong: divides by the root of squares."""

# -    means = normalize(scores, p=1, dim=-1).sum(0)
# +    means = normalize(scores, p=2, dim=-1).sum(0)

# %% squared_shares of="right_one_hot"
"""Wrong: share times share: nothing flows."""

# -    return scores.shape[1] * torch.dot(table, means) / (experts.numel() * len(scores))
# +    return scores.shape[1] * (torch.dot(table, table) * len(scores) / experts.numel() + 0 * means.sum()) / (experts.numel() * len(scores))

# %% squared_means of="right_one_hot"
"""Wrong: mean times mean: counts do not count."""

# -    return scores.shape[1] * torch.dot(table, means) / (experts.numel() * len(scores))
# +    return scores.shape[1] * torch.dot(means, means) * experts.shape[1] / (experts.numel() * len(scores))

# %% first_choice_alone of="right_one_hot"
"""Wrong: counts the first choice alone."""

# -    table = one_hot(experts, scores.shape[1]).sum((0, 1)).to(scores.dtype)
# +    table = (experts.shape[1] * one_hot(experts[:, :1], scores.shape[1])).sum((0, 1)).to(scores.dtype)

# %% without_gradient of="right_one_hot"
"""Wrong: a number, detached."""

# -    loss = balance_loss(leaf, experts)
# +    loss = balance_loss(leaf.detach(), experts) + 0 * leaf.sum()

# %% bias_away of="right_one_hot"
"""Wrong: up where there is too much."""

# -    return bias + rate * torch.sign(load.mean() - load).to(bias.dtype)
# +    return bias + rate * torch.sign(load - load.mean()).to(bias.dtype)

# %% proportional of="right_one_hot"
"""Wrong: by how much is missing, not by its sign."""

# -    return bias + rate * torch.sign(load.mean() - load).to(bias.dtype)
# +    return bias + rate * ((load.mean() - load) / load.mean()).to(bias.dtype)

# %% never_rests of="right_one_hot"
"""Wrong: moves down also at the mean."""

# -    return bias + rate * torch.sign(load.mean() - load).to(bias.dtype)
# +    return bias + rate * torch.where(load < load.mean(), 1.0, -1.0).to(bias.dtype)

# %% counts_in_float32 of="right_one_hot"
"""Wrong: counts in float32, where neighbours above 2^24 are one number."""

# -    load = load.double()
# +    load = load.float()

# %% counts_in_bfloat16 of="right_one_hot"
"""Wrong: counts in bf16, as Megatron-LM#7081 found."""

# -    load = load.double()
# +    load = load.bfloat16().float()

# %% median of="right_one_hot"
"""Wrong: the median for the mean."""

# -    return bias + rate * torch.sign(load.mean() - load).to(bias.dtype)
# +    return bias + rate * torch.sign(load.sort().values[len(load) // 2 - 1] - load).to(bias.dtype)

# %% in_place of="right_one_hot"
"""Wrong: moves the caller's bias."""

# -    return bias + rate * torch.sign(load.mean() - load).to(bias.dtype)
# +    return bias.add_(rate * torch.sign(load.mean() - load).to(bias.dtype)).clone()

# %% mean_kept_at_zero of="right_one_hot"
"""Wrong: takes the mean off, as torchtitan does: the choice is the same, the bias is not."""

# -    return bias + rate * torch.sign(load.mean() - load).to(bias.dtype)
# +    moved = bias + rate * torch.sign(load.mean() - load).to(bias.dtype)
# +    return moved - moved.mean()
