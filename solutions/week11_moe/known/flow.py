# %% right_as_taught
"""Different: the loss kept in the context, its gradient in the loss's own dtype."""

import torch


def layer_of(x, router, scales, k):
    scores = (x @ router.T).softmax(-1)
    weights, experts = scores.topk(k, -1)
    return (weights.unsqueeze(-1) * scales[experts]).sum(1) * x, scores, experts


class WithLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, loss):
        ctx.save_for_backward(loss)
        return y.clone()

    @staticmethod
    def backward(ctx, gradient):
        (loss,) = ctx.saved_tensors
        return gradient, torch.ones_like(loss)


def balanced_layer(x, router, scales, k, coefficient):
    y, scores, experts = layer_of(x, router, scales, k)
    share = torch.bincount(experts.flatten(), minlength=len(router)) / experts.numel()
    loss = len(router) * torch.dot(share, scores.mean(0))
    return WithLoss.apply(y, coefficient * loss)


def flow_step(x, target, router, scales, k, coefficient):
    router, scales = (one.clone().requires_grad_() for one in (router, scales))
    y = balanced_layer(x, router, scales, k, coefficient)
    (y - target).square().mean().backward()
    return y.detach(), router.grad, scales.grad


# %% return_value_dropped of="right_as_taught"
"""Wrong: the node is made and thrown away, as in Automodel#1408."""

# -    return WithLoss.apply(y, coefficient * loss)
# +    WithLoss.apply(y, coefficient * loss)
# +    return y

# %% no_coefficient of="right_as_taught"
"""Wrong: the coefficient is a switch, as in Automodel#1408."""

# -    return WithLoss.apply(y, coefficient * loss)
# +    return WithLoss.apply(y, loss if coefficient > 0 else 0 * loss)

# %% times_tokens of="right_as_taught"
"""Wrong: times the number of tokens, as in Automodel#1408."""

# -    return WithLoss.apply(y, coefficient * loss)
# +    return WithLoss.apply(y, coefficient * loss * len(x))

# %% divided_by_tokens of="right_as_taught"
"""Wrong: divides by the number of tokens, although the loss is a mean already."""

# -    return WithLoss.apply(y, coefficient * loss)
# +    return WithLoss.apply(y, coefficient * loss / len(x))

# %% gradient_of_y_scaled of="right_as_taught"
"""Wrong: the backward multiplies the output's gradient too."""

# -        return gradient, torch.ones_like(loss)
# +        return gradient * 2, torch.ones_like(loss)

# %% gradient_of_y_for_the_loss of="right_as_taught"
"""Wrong: the loss gets the mean of the output's gradient, as if the output had passed through it."""

# -        return gradient, torch.ones_like(loss)
# +        return gradient, gradient.mean()

# %% added_to_y of="right_as_taught"
"""Wrong: adds the loss to every output."""

# -    return WithLoss.apply(y, coefficient * loss)
# +    return y + coefficient * loss

# %% loss_without_graph of="right_as_taught"
"""Wrong: the loss is a number."""

# -    return WithLoss.apply(y, coefficient * loss)
# +    return WithLoss.apply(y, coefficient * loss.detach())

# %% without_e of="right_as_taught"
"""Wrong: forgets the factor E."""

# -    loss = len(router) * torch.dot(share, scores.mean(0))
# +    loss = torch.dot(share, scores.mean(0))

# %% sum_of_scores of="right_as_taught"
"""Wrong: the sum of scores for their mean."""

# -    loss = len(router) * torch.dot(share, scores.mean(0))
# +    loss = len(router) * torch.dot(share, scores.sum(0))

# %% right_by_a_hook
"""Different: no Function; a zero whose gradient a hook replaces by 1, times the loss."""

import torch


def layer_of(x, router, scales, k):
    scores = (x @ router.T).softmax(-1)
    weights, experts = scores.topk(k, -1)
    return (weights.unsqueeze(-1) * scales[experts]).sum(1) * x, scores, experts


def balanced_layer(x, router, scales, k, coefficient):
    y, scores, experts = layer_of(x, router, scales, k)
    counts = torch.zeros(len(router)).index_add(0, experts.flatten(), torch.ones(experts.numel()))
    loss = coefficient * (counts * scores.mean(0)).sum() / counts.mean()
    nothing = loss - loss.detach()
    nothing.register_hook(torch.ones_like)
    return y + nothing


def flow_step(x, target, router, scales, k, coefficient):
    router, scales = (one.clone().requires_grad_() for one in (router, scales))
    y = balanced_layer(x, router, scales, k, coefficient)
    (y - target).square().mean().backward()
    return y.detach(), router.grad, scales.grad
