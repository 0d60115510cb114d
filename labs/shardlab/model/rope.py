"""Rotary positions: rotate queries and keys by their positions, so that scores depend on position differences.

arXiv 2104.09864, section 3.2.2; pairs consist of one number from each half of a head, as in GPT-NeoX.
"""

from __future__ import annotations

import torch
from torch import Tensor

BASE = 10000.0  # the paper's theta; longer contexts use more (500,000 in Llama 3)


def angles(positions: Tensor, width: int, *, base: float = BASE) -> Tensor:
    """Angles [..., S, D/2] of a head of width D at positions [..., S], in float32; ValueError for an odd width."""
    if width % 2:
        raise ValueError(f"a head of width {width} cannot be rotated in pairs: use {width - 1} or {width + 1}")
    frequencies = base ** (-torch.arange(0, width, 2, device=positions.device).float() / width)
    return positions.unsqueeze(-1).float() * frequencies


def rotated(x_BASD: Tensor, angles_SD: Tensor) -> Tensor:
    """Rotate each pair of numbers by its angle; angles are [S, D/2], or [B, S, D/2] with one set per sequence."""
    if angles_SD.dim() == 3:
        angles_SD = angles_SD.unsqueeze(1)
    cos, sin = angles_SD.cos().to(x_BASD.dtype), angles_SD.sin().to(x_BASD.dtype)
    first, second = x_BASD.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
