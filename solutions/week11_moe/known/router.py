# %% right_as_taught
"""Different: a mask of all experts, and the weights picked from it."""

import torch


def choose(logits, bias, k, score, renormalise):
    scores = score(logits.to(torch.float32))
    experts = torch.argsort(scores.detach() + bias, dim=-1, descending=True)[:, :k]
    weights = torch.take_along_dim(scores, experts, dim=-1)
    if renormalise:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return experts, weights


def router_step(logits, bias, k, sigmoid, renormalise, gradient):
    leaf = logits.clone().requires_grad_()
    score = torch.sigmoid if sigmoid else torch.nn.Softmax(-1)
    experts, weights = choose(leaf, bias, k, score, renormalise)
    (of_logits,) = torch.autograd.grad((weights * gradient.gather(-1, experts)).sum(), leaf)
    return experts, weights.detach(), of_logits


# %% bias_in_the_weights of="right_as_taught"
"""Wrong: weighs by score plus bias."""

# -    weights = torch.take_along_dim(scores, experts, dim=-1)
# +    weights = torch.take_along_dim(scores + bias, experts, dim=-1)

# %% no_bias of="right_as_taught"
"""Wrong: chooses by score alone."""

# -    experts = torch.argsort(scores.detach() + bias, dim=-1, descending=True)[:, :k]
# +    experts = torch.argsort(scores.detach(), dim=-1, descending=True)[:, :k]

# %% bias_on_logits of="right_as_taught"
"""Wrong: adds the bias before the score."""

# -    scores = score(logits.to(torch.float32))
# +    scores = score(logits.to(torch.float32) + bias)

# %% bias_subtracted of="right_as_taught"
"""Wrong: the bias with the wrong sign."""

# -    experts = torch.argsort(scores.detach() + bias, dim=-1, descending=True)[:, :k]
# +    experts = torch.argsort(scores.detach() - bias, dim=-1, descending=True)[:, :k]

# %% chosen_by_logits of="right_as_taught"
"""Wrong: chooses by logit plus bias."""

# -    experts = torch.argsort(scores.detach() + bias, dim=-1, descending=True)[:, :k]
# +    experts = torch.argsort(logits.float().detach() + bias, dim=-1, descending=True)[:, :k]

# %% always_renormalised of="right_as_taught"
"""Wrong: weights always add up to 1."""

# -    if renormalise:
# +    if True:

# %% never_renormalised of="right_as_taught"
"""Wrong: weights never add up to 1."""

# -    if renormalise:
# +    if False:

# %% by_all_experts of="right_as_taught"
"""Wrong: divides by the sum of all scores, which softmax had made 1."""

# -        weights = weights / weights.sum(dim=-1, keepdim=True)
# +        weights = weights / scores.sum(dim=-1, keepdim=True)

# %% softmax_of_weights of="right_as_taught"
"""Wrong: a softmax of the chosen scores."""

# -        weights = weights / weights.sum(dim=-1, keepdim=True)
# +        weights = weights.softmax(dim=-1)

# %% over_tokens of="right_as_taught"
"""Wrong: divides by the sum over tokens."""

# -        weights = weights / weights.sum(dim=-1, keepdim=True)
# +        weights = weights / weights.sum(dim=0, keepdim=True)

# %% sum_without_gradient of="right_as_taught"
"""Wrong: no gradient through the sum."""

# -        weights = weights / weights.sum(dim=-1, keepdim=True)
# +        weights = weights / weights.sum(dim=-1, keepdim=True).detach()

# %% router_gradient_lost of="right_as_taught"
"""Wrong: weights without a graph."""

# -    return experts, weights
# +    return experts, weights.detach() + 0 * logits.sum()

# %% in_bfloat16 of="right_as_taught"
"""Wrong: scores in the dtype of the logits."""

# -    scores = score(logits.to(torch.float32))
# +    scores = score(logits)

# %% rounded_scores of="right_as_taught"
"""Wrong: scores in the logits' dtype, turned to float32 too late."""

# -    scores = score(logits.to(torch.float32))
# +    scores = score(logits).float()

# %% exp_overflows of="right_as_taught"
"""Wrong: a softmax by hand, without subtracting the largest."""

#      scores = score(logits.to(torch.float32))
# +    if abs(scores.sum(-1).max().item() - 1) < 1e-5:
# +        powers = logits.float().exp()
# +        scores = powers / powers.sum(-1, keepdim=True)

# %% worst_experts of="right_as_taught"
"""Wrong: the k smallest."""

# -    experts = torch.argsort(scores.detach() + bias, dim=-1, descending=True)[:, :k]
# +    experts = torch.argsort(scores.detach() + bias, dim=-1, descending=False)[:, :k]

# %% one_too_few of="right_as_taught"
"""Wrong: the best expert k times."""

# -    experts = torch.argsort(scores.detach() + bias, dim=-1, descending=True)[:, :k]
# +    experts = torch.argsort(scores.detach() + bias, dim=-1, descending=True)[:, :1].expand(-1, k)

# %% int32 of="right_as_taught"
"""Wrong: experts in int32."""

# -    return experts, weights.detach(), of_logits
# +    return experts.int(), weights.detach(), of_logits

# %% softmax_alone of="right_as_taught"
"""Wrong: every score is a softmax."""

# -    scores = score(logits.to(torch.float32))
# +    scores = logits.to(torch.float32).softmax(-1)

# %% right_token_by_token
"""Different: token by token, softmax of the chosen logits where that is the same, experts in ascending order."""

import torch


def router_step(logits, bias, k, sigmoid, renormalise, gradient):
    leaf = logits.clone().requires_grad_()
    chosen, weighed = [], []
    for row in leaf.float():
        scores = row.sigmoid() if sigmoid else row.softmax(0)
        experts = sorted(range(len(row)), key=lambda e, s=scores: -(s[e] + bias[e]).item())[:k]
        experts = torch.tensor(sorted(experts))
        if renormalise and not sigmoid:
            weights = row[experts].softmax(0)
        else:
            weights = scores[experts]
            weights = weights / (weights.sum() + 1e-20) if renormalise else weights
        chosen.append(experts)
        weighed.append(weights)
    experts, weights = torch.stack(chosen), torch.stack(weighed)
    wanted = torch.take_along_dim(gradient, experts, 1)
    (of_logits,) = torch.autograd.grad(weights, leaf, wanted)
    return experts, weights.detach(), of_logits
