"""Different: torch.nn.utils and functional.pad."""

import torch


def flatten_and_pad(tensors, num_ranks):
    flat = torch.nn.utils.parameters_to_vector(tensors)
    return torch.nn.functional.pad(flat, (0, (num_ranks - flat.numel() % num_ranks) % num_ranks))


def unflatten(flat, tensors):
    parts = flat[: sum(t.numel() for t in tensors)].split([t.numel() for t in tensors])
    return [part.view_as(t) for part, t in zip(parts, tensors, strict=False)]
