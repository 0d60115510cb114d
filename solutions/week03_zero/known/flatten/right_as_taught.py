"""Different: as the page solves it."""

import torch


def flatten_and_pad(tensors, num_ranks):
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])


def unflatten(flat, tensors):
    parts, begin = [], 0
    for tensor in tensors:
        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
        begin += tensor.numel()
    return parts
