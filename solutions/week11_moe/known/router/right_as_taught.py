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
