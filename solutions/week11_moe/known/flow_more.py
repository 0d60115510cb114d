# %% right_as_taught
"""Different: the loss kept in the context, counts noted before they are summed."""

import torch
import torch.distributed as dist


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


def mesh_layer(x, router, scales, k, coefficient, num_microbatches, counts, *, group):
    y, scores, experts = layer_of(x, router, scales, k)
    load = torch.bincount(experts.flatten(), minlength=len(router))
    if torch.is_grad_enabled():
        dist.all_reduce(load, group=group)
        counts.add_(load)
        share = load / load.sum()
        loss = len(router) * torch.dot(share, scores.mean(0)) / num_microbatches
        y = WithLoss.apply(y, coefficient * loss)
    return y


def moe_step(batches, targets, router, scales, k, coefficient, *, group):
    router, scales = (one.clone().requires_grad_() for one in (router, scales))
    counts, num = torch.zeros(len(router), dtype=torch.int64), len(batches)
    for x, target in zip(batches, targets, strict=True):
        with torch.no_grad():
            mesh_layer(x, router, scales, k, coefficient, num, counts, group=group)
        y = mesh_layer(x, router, scales, k, coefficient, num, counts, group=group)
        ((y - target).square().mean() / num).backward()
    for one in (router, scales):
        dist.all_reduce(one.grad, group=group)
        one.grad /= dist.get_world_size(group)
    return router.grad, scales.grad, counts


# %% once_per_microbatch of="right_as_taught"
"""Wrong: the sum over microbatches, as before Automodel#3359."""

# -        loss = len(router) * torch.dot(share, scores.mean(0)) / num_microbatches
# +        loss = len(router) * torch.dot(share, scores.mean(0))

# %% divided_twice of="right_as_taught"
"""Wrong: divides by the number of microbatches twice."""

# -        loss = len(router) * torch.dot(share, scores.mean(0)) / num_microbatches
# +        loss = len(router) * torch.dot(share, scores.mean(0)) / num_microbatches**2

# %% divided_by_ranks of="right_as_taught"
"""Wrong: divides by the ranks, although the gradients' mean does: a coefficient that shrinks with the mesh."""

# -        y = WithLoss.apply(y, coefficient * loss)
# +        y = WithLoss.apply(y, coefficient * loss / dist.get_world_size(group))

# %% times_ranks of="right_as_taught"
"""Wrong: times the ranks: a coefficient that grows with the mesh."""

# -        y = WithLoss.apply(y, coefficient * loss)
# +        y = WithLoss.apply(y, coefficient * loss * dist.get_world_size(group))

# %% own_counts of="right_as_taught"
"""Wrong: each rank balances its own tokens."""

#      if torch.is_grad_enabled():
# +        share = load / load.sum()

# -        share = load / load.sum()

# %% own_counts_noted of="right_as_taught"
"""Wrong: the loss is that of all ranks, the counts are its own."""

#      if torch.is_grad_enabled():
# +        counts.add_(load)

# -        counts.add_(load)

# %% counted_twice of="right_as_taught"
"""Wrong: counts in both runs, as torchtitan#1593 found."""

#      load = torch.bincount(experts.flatten(), minlength=len(router))
# +    dist.all_reduce(load, group=group)
# +    counts.add_(load)

# -        dist.all_reduce(load, group=group)
# -        counts.add_(load)

# %% counts_of_the_last of="right_as_taught"
"""Wrong: counts of the last microbatch alone."""

# -        counts.add_(load)
# +        counts.copy_(load)

# %% share_of_the_step of="right_as_taught"
"""Wrong: the share is that of all microbatches so far."""

# -        share = load / load.sum()
# +        share = counts / counts.sum()

# %% share_of_own_tokens of="right_as_taught"
"""Wrong: divides the counts of all ranks by its own tokens."""

# -        share = load / load.sum()
# +        share = load / experts.numel()

# %% nothing_sent_of_counts of="right_as_taught"
"""Wrong: multiplies its own counts by the number of ranks."""

# -        dist.all_reduce(load, group=group)
# +        load = load * dist.get_world_size(group)

# %% gathers_the_scores of="right_as_taught"
"""Wrong: every rank gets all scores."""

#      if torch.is_grad_enabled():
# +        everything = [torch.empty_like(scores) for _ in range(dist.get_world_size(group))]
# +        dist.all_gather(everything, scores.detach(), group=group)

# %% counts_the_world of="right_as_taught"
"""Wrong: sums over the whole world, of which a part never calls."""

# -        dist.all_reduce(load, group=group)
# +        dist.all_reduce(load)

# %% mean_of_counts of="right_as_taught"
"""Wrong: the ranks' mean of counts."""

# -        counts.add_(load)
# +        counts.add_(load // dist.get_world_size(group))

# %% right_in_the_first_run
"""Different: counts in the run without a graph and keeps the load for the second; the coefficient in the backward."""

import torch
import torch.distributed as dist

LOADS = []


class WithLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, loss, weight):
        ctx.weight = weight
        return y.view_as(y)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, torch.full((), ctx.weight), None


def mesh_layer(x, router, scales, k, coefficient, num_microbatches, counts, *, group):
    scores = (x @ router.T).softmax(-1)
    weights, experts = scores.topk(k, -1)
    y = (weights.unsqueeze(-1) * scales[experts]).sum(1) * x
    if not torch.is_grad_enabled():
        table = torch.zeros(len(x), len(router)).scatter(1, experts, 1.0)
        load = table.sum(0)
        dist.all_reduce(load, group=group)
        counts += load.long()
        LOADS.append(load)
        return y
    load = LOADS.pop()
    loss = (load * scores.mean(0)).sum() / load.mean()
    return WithLoss.apply(y, loss, coefficient / num_microbatches)


def moe_step(batches, targets, router, scales, k, coefficient, *, group):
    router, scales = (one.clone().requires_grad_() for one in (router, scales))
    counts, num = torch.zeros(len(router), dtype=torch.int64), len(batches)
    for x, target in zip(batches, targets, strict=True):
        with torch.no_grad():
            mesh_layer(x, router, scales, k, coefficient, num, counts, group=group)
        y = mesh_layer(x, router, scales, k, coefficient, num, counts, group=group)
        ((y - target).square().mean() / num).backward()
    for one in (router, scales):
        dist.all_reduce(one.grad, group=group)
        one.grad /= dist.get_world_size(group)
    return router.grad, scales.grad, counts
