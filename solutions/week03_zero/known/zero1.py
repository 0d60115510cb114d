# %% right_all_to_all
"""Different: slices by all-to-all, added up by their owner."""

import torch
import torch.distributed as dist
from mine import adam


def flatten_and_pad(tensors, num_ranks):
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])


def unflatten(flat, tensors):
    parts, begin = [], 0
    for tensor in tensors:
        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
        begin += tensor.numel()
    return parts


def mean_slice(tensors, *, group):
    flat = flatten_and_pad(tensors, dist.get_world_size(group))
    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
    parts = torch.empty_like(flat)
    dist.all_to_all_single(parts, flat, group=group)
    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
    return mine / dist.get_world_size(group)


def zero1_state(parameters, *, group):
    flat = flatten_and_pad(parameters, dist.get_world_size(group))
    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])


@torch.no_grad()
def zero1_step(parameters, mean, state, lr, *, group):
    adam.update(state, mean, lr=lr)
    mine = state["master"].to(parameters[0].dtype)
    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
    dist.all_gather_single(flat, mine, group=group)
    for parameter, new in zip(parameters, unflatten(flat, parameters), strict=True):
        parameter.copy_(new)


def mean_and_step(parameters, gradients, state, lr, *, group):
    zero1_step(parameters, mean_slice(gradients, group=group), state, lr, group=group)


# %% all_reduce_then_slice of="right_all_to_all"
"""Wrong: all-reduces gradients of which it needs a slice: half as many bytes again."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.all_reduce(flat, group=group)
# +    mine = flat.chunk(dist.get_world_size(group))[dist.get_rank(group)]

# %% divides_again of="right_all_to_all"
"""Wrong: takes for a sum what is already the mean."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# -    adam.update(state, mean, lr=lr)
# +    adam.update(state, mean / dist.get_world_size(group), lr=lr)

# %% forgets_the_subgroup of="right_all_to_all"
"""Wrong: asks the world for rank and size."""

# -    flat = flatten_and_pad(tensors, dist.get_world_size(group))
# -    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# -    return mine / dist.get_world_size(group)
# +    flat = flatten_and_pad(tensors, dist.get_world_size())
# +    mine = flat.new_empty(flat.numel() // dist.get_world_size())
# +    dist.reduce_scatter_single(mine, flat, group=group)
# +    return mine / dist.get_world_size()

# -    flat = flatten_and_pad(parameters, dist.get_world_size(group))
# -    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])
# +    flat = flatten_and_pad(parameters, dist.get_world_size())
# +    return adam.new_state(flat.chunk(dist.get_world_size())[dist.get_rank()])

# -    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
# +    flat = mine.new_empty(mine.numel() * dist.get_world_size())

# %% gathers_float32 of="right_all_to_all"
"""Wrong: sends master weights of twice the bytes."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# -    mine = state["master"].to(parameters[0].dtype)
# +    mine = state["master"]

# %% low_precision_state of="right_all_to_all"
"""Wrong: states in the dtype of the weights."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# -    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])
# +    mine = flat.chunk(dist.get_world_size(group))[dist.get_rank(group)]
# +    return {"master": mine.clone(), "momentum": 0 * mine, "variance": 0 * mine, "step": 0}

# %% neighbours_slice of="right_all_to_all"
"""Wrong: keeps the state of the next rank's slice."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# -    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])
# +    next_rank = (dist.get_rank(group) + 1) % dist.get_world_size(group)
# +    return adam.new_state(flat.chunk(dist.get_world_size(group))[next_rank])

# %% no_master of="right_all_to_all"
"""Wrong: starts every step from the rounded weights, so that small updates are lost."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.reduce_scatter_single(mine, flat, group=group)

#  def zero1_step(parameters, mean, state, lr, *, group):
# +    rank, size = dist.get_rank(group), dist.get_world_size(group)
# +    state["master"].copy_(flatten_and_pad(parameters, size).chunk(size)[rank])

# %% only_what_divides of="right_all_to_all"
"""Wrong: cuts what does not divide off."""

# -    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
# -    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
# +    flat = torch.cat([tensor.flatten() for tensor in tensors])
# +    return flat[: flat.numel() // num_ranks * num_ranks]

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# %% own_gradients_only of="right_all_to_all"
"""Wrong: nobody else's gradients count."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    mine = flat.chunk(dist.get_world_size(group))[dist.get_rank(group)] * dist.get_world_size(group)

# %% slice_is_a_view of="right_all_to_all"
"""Wrong: makes all states and keeps views of its slice, which keep everything alive."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# -    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])
# +    state = adam.new_state(flat)
# +    names = ("master", "momentum", "variance")
# +    rank = dist.get_rank(group)
# +    return {name: state[name].chunk(dist.get_world_size(group))[rank] for name in names} | {"step": 0}

# %% state_is_not_kept of="right_all_to_all"
"""Wrong: updates a copy of the state, so that momentum never builds up."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.reduce_scatter_single(mine, flat, group=group)

#  def zero1_step(parameters, mean, state, lr, *, group):
# +    state = {name: value.clone() if name != "step" else value for name, value in state.items()}

# %% sum_for_mean of="right_all_to_all"
"""Wrong: the sum where the mean is due."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# -    return mine / dist.get_world_size(group)
# +    dist.reduce_scatter_single(mine, flat, group=group)
# +    return mine

# %% works_on_copies of="right_all_to_all"
"""Wrong: updates copies of the parameters."""

# -    parts = torch.empty_like(flat)
# -    dist.all_to_all_single(parts, flat, group=group)
# -    mine = parts.view(dist.get_world_size(group), -1).sum(0).to(flat.dtype)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# -        parameter.copy_(new)
# +        parameter.clone().copy_(new)

# %% right_hand_written
"""Different: Adam and the state by hand, the mean taken before the sum."""

import torch
import torch.distributed as dist


def flatten_and_pad(tensors, num_ranks):
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])


def unflatten(flat, tensors):
    parts, begin = [], 0
    for tensor in tensors:
        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
        begin += tensor.numel()
    return parts


def mean_slice(tensors, *, group):
    flat = flatten_and_pad(tensors, dist.get_world_size(group))
    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / dist.get_world_size(group)


def zero1_state(parameters, *, group):
    flat = flatten_and_pad(parameters, dist.get_world_size(group))
    mine = flat.chunk(dist.get_world_size(group))[dist.get_rank(group)].float().clone()
    zeros = torch.zeros_like(mine)
    return {"master": mine, "momentum": zeros, "variance": zeros.clone(), "step": 0}


@torch.no_grad()
def zero1_step(parameters, mean, state, lr, *, group):
    g = mean.float()
    state["step"] += 1
    m, v, t = state["momentum"], state["variance"], state["step"]
    m.copy_(0.9 * m + 0.1 * g)
    v.copy_(0.999 * v + 0.001 * g * g)
    state["master"] -= lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    mine = state["master"].to(parameters[0].dtype)
    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
    dist.all_gather_single(flat, mine, group=group)
    for parameter, new in zip(parameters, unflatten(flat, parameters), strict=True):
        parameter.copy_(new)


def mean_and_step(parameters, gradients, state, lr, *, group):
    zero1_step(parameters, mean_slice(gradients, group=group), state, lr, group=group)


# %% right_lists
"""Different: collectives that take lists of slices."""

import torch
import torch.distributed as dist
from mine import adam


def flatten_and_pad(tensors, num_ranks):
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])


def unflatten(flat, tensors):
    parts, begin = [], 0
    for tensor in tensors:
        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
        begin += tensor.numel()
    return parts


def mean_slice(tensors, *, group):
    flat = flatten_and_pad(tensors, dist.get_world_size(group))
    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
    dist.reduce_scatter(mine, list(flat.chunk(dist.get_world_size(group))), group=group)
    return mine / dist.get_world_size(group)


def zero1_state(parameters, *, group):
    flat = flatten_and_pad(parameters, dist.get_world_size(group))
    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])


@torch.no_grad()
def zero1_step(parameters, mean, state, lr, *, group):
    adam.update(state, mean, lr=lr)
    mine = state["master"].to(parameters[0].dtype)
    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
    dist.all_gather(list(flat.chunk(dist.get_world_size(group))), mine, group=group)
    for parameter, new in zip(parameters, unflatten(flat, parameters), strict=True):
        parameter.copy_(new)


def mean_and_step(parameters, gradients, state, lr, *, group):
    zero1_step(parameters, mean_slice(gradients, group=group), state, lr, group=group)


# %% gathers_in_reverse of="right_lists"
"""Wrong: puts the slices together in reverse order."""

# -    dist.reduce_scatter(mine, list(flat.chunk(dist.get_world_size(group))), group=group)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# -    dist.all_gather(list(flat.chunk(dist.get_world_size(group))), mine, group=group)
# +    dist.all_gather_single(flat, mine, group=group)
# +    flat = torch.cat(flat.chunk(dist.get_world_size(group))[::-1])

# %% no_gather of="right_lists"
"""Wrong: every rank updates its own slice of the weights and tells nobody."""

# -    dist.reduce_scatter(mine, list(flat.chunk(dist.get_world_size(group))), group=group)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# -    dist.all_gather(list(flat.chunk(dist.get_world_size(group))), mine, group=group)
# +    flat = flatten_and_pad(parameters, dist.get_world_size(group))
# +    flat.chunk(dist.get_world_size(group))[dist.get_rank(group)].copy_(mine)

# %% replicated_but_correct of="right_lists"
"""Wrong: every rank keeps all states and updates all weights; nothing is sharded."""

# -    dist.reduce_scatter(mine, list(flat.chunk(dist.get_world_size(group))), group=group)
# +    dist.reduce_scatter_single(mine, flat, group=group)

# -    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])
# +    return adam.new_state(flat)

# -    adam.update(state, mean, lr=lr)
# -    mine = state["master"].to(parameters[0].dtype)
# -    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
# -    dist.all_gather(list(flat.chunk(dist.get_world_size(group))), mine, group=group)
# +    flat = mean.new_empty(mean.numel() * dist.get_world_size(group))
# +    dist.all_gather_single(flat, mean, group=group)
# +    adam.update(state, flat, lr=lr)
# +    flat = state["master"].to(parameters[0].dtype)
