"""Different: a tensor of the six factors, and a tuple of its numbers."""

import torch


def activation_bytes(s, b, h, a, t):
    r = 5 * a * s / h
    factors = torch.tensor([34 + r, 10 + (24 + r) / t, (34 + r) / t, 10 + 24 / t, 34 / t, 2], dtype=torch.float64)
    return tuple((s * b * h * factors).tolist())
