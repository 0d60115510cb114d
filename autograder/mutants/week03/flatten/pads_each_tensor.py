"""Wrong: pads every tensor by itself."""

import torch


def flatten_and_pad(tensors, num_ranks):
    parts = []
    for tensor in tensors:
        parts += [tensor.flatten(), tensor.new_zeros(-tensor.numel() % num_ranks)]
    return torch.cat(parts)


def unflatten(flat, tensors):
    parts, begin = [], 0
    for tensor in tensors:
        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
        begin += tensor.numel()
    return parts
