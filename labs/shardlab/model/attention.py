"""Causal self-attention whose query heads share key-value heads.

Shapes: B batch, S sequence, H hidden, D width of a head, A query heads, K key-value heads, G = A/K, W total width of q,
k and v. K = A is multi-head attention, K = 1 multi-query attention (arXiv 1911.02150), and values in between are
grouped-query attention (arXiv 2305.13245).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from shardlab.model.dropout import Dropout

BASE = 10000.0  # theta of the paper on rotary positions; longer contexts use more (500,000 in Llama 3)


class Attention(nn.Module):
    """Each token attends to itself and earlier tokens. rope: rotate queries and keys by their positions.

    The rows of `qkv` are those of all queries, then all keys, then all values; `sections` has their numbers.
    """

    def __init__(
        self, hidden: int, heads: int, kv_heads: int, *, dropout: float, flash: bool, rope: bool = False
    ) -> None:
        super().__init__()
        self.rope = rope
        self.heads, self.kv_heads, self.width = heads, kv_heads, hidden // heads
        self.qkv = nn.Linear(hidden, sum(self.sections))
        self.core = AttentionCore(dropout, flash)
        self.out = nn.Linear(hidden, hidden)

    @property
    def sections(self) -> tuple[int, int, int]:
        """Widths of all queries, keys and values that this module computes."""
        return self.heads * self.width, self.kv_heads * self.width, self.kv_heads * self.width

    def forward(self, x_BSH: Tensor, positions: Tensor | None = None) -> Tensor:
        """positions: of the tokens, [S] or [B, S]; None counts from 0."""
        parts = self.qkv(x_BSH).split(self.sections, dim=-1)
        q_BASD, k_BKSD, v_BKSD = (part.unflatten(-1, (-1, self.width)).transpose(1, 2) for part in parts)
        if self.rope:
            positions = torch.arange(q_BASD.shape[2], device=x_BSH.device) if positions is None else positions
            turns = angles(positions, self.width)
            q_BASD, k_BKSD = rotated(q_BASD, turns), rotated(k_BKSD, turns)
        y_BASD = self.core(q_BASD, k_BKSD, v_BKSD)
        return self.out(y_BASD.transpose(1, 2).flatten(2))


class AttentionCore(nn.Module):
    """softmax(q k^T / sqrt(D)) v: the part between the two projections, which selective recomputation repeats.

    flash: use one fused kernel that saves no scores; there is then no dropout on scores.
    """

    def __init__(self, dropout: float, flash: bool) -> None:
        super().__init__()
        self.flash = flash
        self.dropout = Dropout(0.0 if flash else dropout)

    def forward(self, q_BASD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor) -> Tensor:
        if not self.flash:
            return self._by_scores(q_BASD, k_BKSD, v_BKSD)
        shared = q_BASD.shape[1] != k_BKSD.shape[1]
        return functional.scaled_dot_product_attention(q_BASD, k_BKSD, v_BKSD, is_causal=True, enable_gqa=shared)

    def _by_scores(self, q_BASD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor) -> Tensor:
        """Concatenate the queries that share a key-value head, so that keys need not be copied for each query head.

        Scale and mask are fused into the matmul, because scores are large and each pass over them takes time.
        """
        num_kv, length = k_BKSD.shape[1:3]
        groups, size = q_BASD.shape[1] // num_kv, len(q_BASD)
        q_NTD = q_BASD.contiguous().flatten(0, 1).unflatten(0, (-1, groups)).flatten(1, 2)  # N = B * K, T = G * S
        k_NSD, v_NSD = (one.contiguous().flatten(0, 1) for one in (k_BKSD, v_BKSD))
        future_TS = torch.full((length, length), -torch.inf, dtype=q_BASD.dtype, device=q_BASD.device).triu(1)
        future_TS = future_TS.repeat(groups, 1)
        scores_NTS = torch.baddbmm(future_TS, q_NTD, k_NSD.transpose(1, 2), alpha=q_BASD.shape[-1] ** -0.5)
        scores_BKGSS = scores_NTS.unflatten(0, (size, num_kv)).unflatten(2, (groups, length))
        weights_BKGSS = self.dropout(functional.softmax(scores_BKGSS, dim=-1))
        y_NTD = weights_BKGSS.flatten(0, 1).flatten(1, 2) @ v_NSD
        return y_NTD.unflatten(0, (size, num_kv)).unflatten(2, (groups, length)).flatten(1, 2)


class LatentAttention(nn.Module):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): all keys and values from one latent.

    A head's query and key have `nope` numbers from a latent and `rope` numbers with a rotary position; the rotary key
    is computed from x and shared by all heads. Values have `value` numbers. For one sequence [S, H].
    """

    def __init__(self, hidden: int, heads: int, q_rank: int, kv_rank: int, *, nope: int, rope: int, value: int) -> None:
        super().__init__()
        self.heads, self.widths, self.core = heads, [nope, rope], AttentionCore(0.0, flash=nope + rope == value)
        self.q_down, self.kv_down = nn.Linear(hidden, q_rank, bias=False), nn.Linear(hidden, kv_rank, bias=False)
        self.q_up = nn.Linear(q_rank, heads * (nope + rope), bias=False)
        self.k_up, self.v_up = (nn.Linear(kv_rank, heads * width, bias=False) for width in (nope, value))
        self.shared_key = nn.Linear(hidden, rope, bias=False)
        self.out = nn.Linear(heads * value, hidden, bias=False)

    def forward(self, x_SH: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """turns: cosines and sines of the positions, from `turns_of`."""
        cos, sin = (one.unsqueeze(1) for one in turns)
        for_q, for_kv = (functional.rms_norm(y := down(x_SH), y.shape[-1:]) for down in (self.q_down, self.kv_down))
        plain, rotary = self._by_head(self.q_up(for_q)).split(self.widths, -1)
        key = turned(self.shared_key(x_SH).unsqueeze(1), cos, sin).expand(-1, self.heads, -1)
        q_SAD = torch.cat([plain, turned(rotary, cos, sin)], -1)
        k_SAD = torch.cat([self._by_head(self.k_up(for_kv)), key], -1)
        v_SAD = self._by_head(self.v_up(for_kv))
        y_BASD = self.core(*(one.transpose(0, 1).unsqueeze(0) for one in (q_SAD, k_SAD, v_SAD)))
        return self.out(y_BASD[0].transpose(0, 1).flatten(1))

    def _by_head(self, x_SW: Tensor) -> Tensor:
        return x_SW.unflatten(-1, (self.heads, -1))


def angles(positions: Tensor, width: int, *, base: float = BASE) -> Tensor:
    """Angles [..., S, D/2] of a head of width D at positions [..., S], in float32; ValueError for an odd width."""
    if width % 2:
        raise ValueError(f"a head of width {width} cannot be rotated in pairs: use {width - 1} or {width + 1}")
    frequencies = base ** (-torch.arange(0, width, 2, device=positions.device).float() / width)
    return positions.unsqueeze(-1).float() * frequencies


def rotated(x_BASD: Tensor, angles_SD: Tensor) -> Tensor:
    """Rotate queries or keys by their positions, so that scores depend on position differences.

    angles_SD: [S, D/2], or [B, S, D/2] with one set per sequence. Pairs consist of one number from each half of a head,
    as in GPT-NeoX. Source: arXiv 2104.09864, section 3.2.2.
    """
    if angles_SD.dim() == 3:
        angles_SD = angles_SD.unsqueeze(1)
    return turned(x_BASD, *turns_of(angles_SD, x_BASD.dtype))


def turns_of(angles_SD: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles."""
    return angles_SD.cos().to(dtype), angles_SD.sin().to(dtype)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs of one number from each half of a head."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
