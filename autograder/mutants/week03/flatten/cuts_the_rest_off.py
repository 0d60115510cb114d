"""Wrong: leaves out what does not divide."""

import torch


def flatten_and_pad(tensors, num_ranks):
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    return flat[: flat.numel() - flat.numel() % num_ranks + 0 * padding]


def unflatten(flat, tensors):
    parts, begin = [], 0
    for tensor in tensors:
        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
        begin += tensor.numel()
    return parts
