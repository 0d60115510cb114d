"""A small GPT, independent of how it is split.

Shapes: B batch, S sequence, H hidden, F width of the MLP, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from shardlab.costs.models.model import divisors
from shardlab.model.attention import Attention
from shardlab.model.dropout import Dropout


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a model; `tied` shares the embedding's weights with the head.

    kv_heads: number of key-value heads that the heads share, 0 for one each. gated: SwiGLU (arXiv 2002.05202) instead
    of GELU. dropout: on the embedding, the output of each sublayer, and the scores. flash: attention in one fused
    kernel, without dropout on scores. rope: rotary positions (arXiv 2104.09864) instead of learned ones.
    Raises ValueError when the heads do not divide the hidden size, or the key-value heads do not divide the heads.
    """

    layers: int = 4
    hidden: int = 128
    heads: int = 4
    sequence: int = 64
    vocabulary: int = 256
    tied: bool = True
    kv_heads: int = 0
    gated: bool = False
    dropout: float = 0.0
    flash: bool = True
    rope: bool = False

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            fits = [heads for heads in divisors(self.hidden) if heads <= 2 * self.heads]
            raise ValueError(f"{self.heads} heads do not divide a hidden size of {self.hidden}: use one of {fits}")
        if self.kv_heads < 0 or self.heads % (self.kv_heads or self.heads):
            raise ValueError(
                f"{self.heads} heads cannot share {self.kv_heads} key-value heads: use one of {divisors(self.heads)}"
            )


class Block(nn.Module):
    """Attention, then an MLP four times as wide, each with a residual connection.

    If gated, `up` is two stacked matrices: one for the values, one for their gate.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        hidden, kv_heads = config.hidden, config.kv_heads or config.heads
        self.gated = config.gated
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = Attention(
            hidden, config.heads, kv_heads, dropout=config.dropout, flash=config.flash, rope=config.rope
        )
        self.up = nn.Linear(hidden, (2 if config.gated else 1) * 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.dropout_1, self.dropout_2 = Dropout(config.dropout), Dropout(config.dropout)

    def forward(self, x_BSH: Tensor, positions: Tensor | None = None) -> Tensor:
        where = () if positions is None else (positions,)
        x_BSH = x_BSH + self.dropout_1(self.attention(self.norm_1(x_BSH), *where))
        return x_BSH + self.dropout_2(self.down(self._activated(self.up(self.norm_2(x_BSH)))))

    def _activated(self, x_BSF: Tensor) -> Tensor:
        if not self.gated:
            return functional.gelu(x_BSF)
        passing, gate = x_BSF.chunk(2, dim=-1)
        return functional.silu(gate) * passing


class GPT(nn.Module):
    """Maps tokens to logits of the next token; `next_token_loss` is their cross-entropy."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.hidden)
        self.position = None if config.rope else nn.Embedding(config.sequence, config.hidden)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.token.weight
        self.apply(initialise)

    def forward(self, tokens_BS: Tensor, positions: Tensor | None = None) -> Tensor:
        """positions: [S] or [B, S], if the tokens are a part of a sequence; None counts from 0."""
        if positions is None:
            positions = torch.arange(tokens_BS.shape[1], device=tokens_BS.device)
        x_BSH = self.token(tokens_BS)
        x_BSH = self.dropout(x_BSH if self.position is None else x_BSH + self.position(positions))
        for block in self.blocks:
            x_BSH = block(x_BSH, positions) if self.config.rope else block(x_BSH)
        return self.head(self.norm(x_BSH))


def next_token_loss(logits_BSV: Tensor, targets_BS: Tensor) -> Tensor:
    """The mean cross-entropy over all tokens."""
    return functional.cross_entropy(logits_BSV.flatten(0, 1), targets_BS.flatten())


def initialise(module: nn.Module) -> None:
    """GPT-2's initialization: normal with standard deviation 0.02, biases zero."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
