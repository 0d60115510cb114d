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
