"""Rotary positions: queries and keys turn by an angle for each position, so that scores see differences of positions.

arXiv 2104.09864, section 3.2.2; halves of a head are turned together, as GPT-NeoX does it.
"""

from __future__ import annotations

import torch
from torch import Tensor

BASE = 10000.0  # theta of the paper; longer contexts take more (500,000 in Llama 3)


def angles(positions: Tensor, width: int, *, base: float = BASE) -> Tensor:
    """Angles [..., S, D/2] of a head of width D at positions [..., S], in float32; ValueError for an odd width."""
    if width % 2:
        raise ValueError(f"a head of width {width} cannot be turned in pairs: use {width - 1} or {width + 1}")
    frequencies = base ** (-torch.arange(0, width, 2, device=positions.device).float() / width)
    return positions.unsqueeze(-1).float() * frequencies


def rotated(x_BASD: Tensor, angles_SD: Tensor) -> Tensor:
    """x with each pair of numbers turned by its angle; angles [S, D/2], or [B, S, D/2] for each sequence its own."""
    if angles_SD.dim() == 3:
        angles_SD = angles_SD.unsqueeze(1)
    cos, sin = angles_SD.cos().to(x_BASD.dtype), angles_SD.sin().to(x_BASD.dtype)
    first, second = x_BASD.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
