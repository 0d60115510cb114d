# %% right_as_taught from="page" also="week03.flatten week03.zero1"
"""Different: as the page solves it."""

import torch
import torch.distributed as dist
from mine import adam

# %% counts_skipped of="right_as_taught"
"""Wrong: counts a skipped step as a good one."""

# -        scaler["scale"], scaler["good"] = scaler["scale"] / 2, 0
# -        return False
# -    zero1_step(parameters, mean / scaler["scale"], state, lr, group=group)
# +        scaler["scale"] = scaler["scale"] / 2
# +    else:
# +        zero1_step(parameters, mean / scaler["scale"], state, lr, group=group)

# -    return True
# +    return not overflow

# %% gathers_anyway of="right_as_taught"
"""Wrong: a skipped step gathers the old weights once more."""

# -        return False
# +        flat = state["master"].half()
# +        dist.all_gather_single(flat.new_empty(len(flat) * dist.get_world_size(group)), flat, group=group)
# +        return False

# %% infinities_only of="right_as_taught"
"""Wrong: looks for infinities, not for NaN."""

# -    overflow = (~mean.isfinite()).any().float()
# +    overflow = mean.isinf().any().float()

# %% keeps_gradients of="right_as_taught"
"""Wrong: the next step adds to these gradients."""

# -    for parameter in parameters:
# -        parameter.grad = None

# %% looks_before_the_sum of="right_as_taught"
"""Wrong: looks at its own gradients, before they are summed: finite numbers can add up to an infinity."""

# -    mean = mean_slice([parameter.grad for parameter in parameters], group=group).float()
# +    own = [parameter.grad for parameter in parameters]
# +    mean = mean_slice(own, group=group).float()

# -    overflow = (~mean.isfinite()).any().float()
# +    overflow = torch.stack([(~one.isfinite()).any() for one in own]).any().float()

# %% never_scales of="right_as_taught"
"""Wrong: keeps the scale for show."""

# -    (loss * scaler["scale"]).backward()
# +    loss.backward()

# -    zero1_step(parameters, mean / scaler["scale"], state, lr, group=group)
# +    zero1_step(parameters, mean, state, lr, group=group)

# %% never_unscales of="right_as_taught"
"""Wrong: Adam's step is nearly the same, its state is not."""

# -    zero1_step(parameters, mean / scaler["scale"], state, lr, group=group)
# +    zero1_step(parameters, mean, state, lr, group=group)

# %% no_ceiling of="right_as_taught"
"""Wrong: doubles without a ceiling, as torch does."""

# -        scaler["scale"], scaler["good"] = min(2 * scaler["scale"], scaler["most"]), 0
# +        scaler["scale"], scaler["good"] = 2 * scaler["scale"], 0

# %% no_agreement of="right_as_taught"
"""Wrong: each rank decides alone, and the others wait for its weights."""

# -    dist.all_reduce(overflow, dist.ReduceOp.MAX, group=group)

# %% grows_at_every_step of="right_as_taught"
"""Wrong: doubles after each good step once the interval is over."""

# -    if scaler["good"] == scaler["interval"]:
# +    if scaler["good"] >= scaler["interval"]:

# -        scaler["scale"], scaler["good"] = min(2 * scaler["scale"], scaler["most"]), 0
# +        scaler["scale"] = min(2 * scaler["scale"], scaler["most"])

# %% own_slice_sits_out of="right_as_taught"
"""Wrong: only the rank with the infinity skips, but it still sends its old weights."""

# -    dist.all_reduce(overflow, dist.ReduceOp.MAX, group=group)

# -        return False
# -    zero1_step(parameters, mean / scaler["scale"], state, lr, group=group)
# +        old = {name: value.clone() for name, value in state.items() if name != "step"}
# +        zero1_step(parameters, torch.zeros_like(mean), {**old, "step": 1}, 0.0, group=group)
# +        return False
# +    zero1_step(parameters, mean / scaler["scale"], state, lr, group=group)

# %% unscales_in_half of="right_as_taught"
"""Wrong: divides by the scale in fp16, where the result is lost again."""

# -    zero1_step(parameters, mean / scaler["scale"], state, lr, group=group)
# +    zero1_step(parameters, mean.half() / scaler["scale"], state, lr, group=group)

# %% right_votes
"""Different: counts the ranks whose slice is finite; autograd.grad leaves no gradients behind."""

import torch
import torch.distributed as dist
from mine import adam


def unflatten(flat, tensors):
    parts = flat[: sum(tensor.numel() for tensor in tensors)].split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def mean_slice(tensors, *, group):
    size = dist.get_world_size(group)
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % size))
    mine = flat.new_empty(len(flat) // size)
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / size


def zero1_step(parameters, mean, state, lr, *, group):
    adam.update(state, mean, lr=lr)
    mine = state["master"].to(parameters[0].dtype)
    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
    dist.all_gather_single(flat, mine, group=group)
    for parameter, new in zip(parameters, unflatten(flat, parameters), strict=True):
        parameter.detach().copy_(new)


def scaled_step(parameters, loss, state, scaler, lr, *, group):
    scale = scaler["scale"]
    mean = mean_slice(torch.autograd.grad(scale * loss, parameters), group=group)
    votes = torch.tensor([int(mean.isfinite().all())])
    dist.all_reduce(votes, group=group)
    stepped = votes.item() == dist.get_world_size(group)
    if stepped:
        zero1_step(parameters, mean.float() / scale, state, lr, group=group)
        scaler["good"] += 1
        if scaler["good"] == scaler["interval"]:
            scaler.update(scale=min(2.0 * scale, scaler["most"]), good=0)
    else:
        scaler.update(scale=scale / 2, good=0)
    return stepped


def train(weights, batches, state, scaler, lr, *, group):
    leaves, history = [weight.detach().requires_grad_() for weight in weights], []
    for batch in batches:
        loss = sum((leaf.float() * x).sum() for leaf, x in zip(leaves, batch, strict=True))
        stepped = scaled_step(leaves, loss, state, scaler, lr, group=group)
        history.append((stepped, scaler["scale"]))
    return history
