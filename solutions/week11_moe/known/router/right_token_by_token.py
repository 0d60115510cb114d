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
