# %% right_as_taught from="page"
"""Different: as the page solves it."""

import torch

# %% cuts_the_rest_off of="right_as_taught"
"""Wrong: leaves out what does not divide."""

# -    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
# +    flat = torch.cat([tensor.flatten() for tensor in tensors])
# +    return flat[: flat.numel() - flat.numel() % num_ranks + 0 * padding]

# %% float32_padding of="right_as_taught"
"""Wrong: padding of float32 makes the vector float32."""

# -    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
# +    return torch.cat([*(tensor.flatten() for tensor in tensors), torch.zeros(padding)])

# %% keeps_the_old of="right_as_taught"
"""Wrong: gives back what it was given."""

# -        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
# +        parts.append(tensor)

# %% loses_the_shapes of="right_as_taught"
"""Wrong: gives flat parts back."""

# -        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
# +        parts.append(flat[begin : begin + tensor.numel()])

# %% no_padding of="right_as_taught"
"""Wrong: leaves a vector that does not divide."""

# -    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
# +    return torch.cat([*(tensor.flatten() for tensor in tensors)])

# %% padding_first of="right_as_taught"
"""Wrong: puts the padding in front."""

# -    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
# +    return torch.cat([tensors[0].new_zeros(padding), *(tensor.flatten() for tensor in tensors)])

# %% padding_of_ones of="right_as_taught"
"""Wrong: pads with ones."""

# -    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
# +    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_ones(padding)])

# %% pads_a_whole_rank of="right_as_taught"
"""Wrong: pads by a whole round where nothing is to pad."""

# -    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
# +    padding = num_ranks - sum(tensor.numel() for tensor in tensors) % num_ranks

# %% pads_each_tensor of="right_as_taught"
"""Wrong: pads every tensor by itself."""

# -    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
# -    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
# +    parts = []
# +    for tensor in tensors:
# +        parts += [tensor.flatten(), tensor.new_zeros(-tensor.numel() % num_ranks)]
# +    return torch.cat(parts)

# %% pads_the_remainder of="right_as_taught"
"""Wrong: pads by the remainder itself."""

# -    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
# +    padding = sum(tensor.numel() for tensor in tensors) % num_ranks

# %% rows_for_numbers of="right_as_taught"
"""Wrong: moves on by the length of the first axis."""

# -        begin += tensor.numel()
# +        begin += len(tensor) if tensor.dim() else 1

# %% transposed of="right_as_taught"
"""Wrong: lays matrices out column by column."""

# -    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
# +    return torch.cat([*(tensor.T.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])

# %% right_fill
"""Different: a vector of zeros, filled."""

import math

import torch


def flatten_and_pad(tensors, num_ranks):
    total = sum(t.numel() for t in tensors)
    flat = torch.zeros(math.ceil(total / num_ranks) * num_ranks, dtype=tensors[0].dtype)
    for part, tensor in zip(unflatten(flat, tensors), tensors, strict=False):
        part.copy_(tensor)
    return flat


def unflatten(flat, tensors):
    begin, parts = 0, []
    for t in tensors:
        parts.append(flat.narrow(0, begin, t.numel()).reshape(t.shape))
        begin += t.numel()
    return tuple(parts)


# %% right_torch_utils
"""Different: torch.nn.utils and functional.pad."""

import torch


def flatten_and_pad(tensors, num_ranks):
    flat = torch.nn.utils.parameters_to_vector(tensors)
    return torch.nn.functional.pad(flat, (0, (num_ranks - flat.numel() % num_ranks) % num_ranks))


def unflatten(flat, tensors):
    parts = flat[: sum(t.numel() for t in tensors)].split([t.numel() for t in tensors])
    return [part.view_as(t) for part, t in zip(parts, tensors, strict=False)]


# %% never_moves_on of="right_torch_utils"
"""Wrong: every part begins at the front."""

# -    flat = torch.nn.utils.parameters_to_vector(tensors)
# -    return torch.nn.functional.pad(flat, (0, (num_ranks - flat.numel() % num_ranks) % num_ranks))
# +    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
# +    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])

# -    parts = flat[: sum(t.numel() for t in tensors)].split([t.numel() for t in tensors])
# -    return [part.view_as(t) for part, t in zip(parts, tensors, strict=False)]
# +    parts, begin = [], 0
# +    for tensor in tensors:
# +        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
# +    return parts
