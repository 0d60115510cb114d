# %% right_all_rows_at_once
"""Different: one loss that averages the microbatches, with torch.autograd.grad."""

import torch


def accumulated_gradient(weight, batches):
    leaf = weight.detach().clone().requires_grad_()
    losses = [(x @ leaf).square().mean() for x in batches]
    (gradient,) = torch.autograd.grad(torch.stack(losses).mean(), leaf)
    return gradient


# %% sum_for_mean
"""Wrong: the gradient of the sum of the losses."""


def accumulated_gradient(weight, batches):
    leaf = weight.clone().requires_grad_()
    for x in batches:
        (x @ leaf).square().mean().backward()
    return leaf.grad


# %% last_microbatch of="sum_for_mean"
"""Wrong: clears .grad before each microbatch, so only the last one counts."""

# -        (x @ leaf).square().mean().backward()
# +        leaf.grad = None
# +        (x @ leaf).square().mean().backward()

# %% divides_at_each_step of="sum_for_mean"
"""Wrong: divides what was accumulated so far at each step, so early microbatches shrink."""

# -        (x @ leaf).square().mean().backward()
# +        (x @ leaf).square().mean().backward()
# +        leaf.grad /= len(batches)

# %% sum_of_squares of="sum_for_mean"
"""Wrong: sums the squares of a microbatch before it divides."""

# -        (x @ leaf).square().mean().backward()
# +        ((x @ leaf).square().sum() / len(batches)).backward()

# %% right_page from="page"
"""Different: the page."""
