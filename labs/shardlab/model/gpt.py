"""A small GPT: what the model is, apart from how it is split.

Shapes: B batch, S sequence, H hidden, A heads, D = H/A, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a model; `tied` shares the embedding's weights with the head.

    Raises ValueError when the heads do not divide the hidden size.
    """

    layers: int = 4
    hidden: int = 128
    heads: int = 4
    sequence: int = 64
    vocabulary: int = 256
    tied: bool = True

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            fits = [
                heads for heads in range(1, self.hidden + 1) if self.hidden % heads == 0 and heads <= 2 * self.heads
            ]
            raise ValueError(f"{self.heads} heads do not divide a hidden size of {self.hidden}: use one of {fits}")


class Attention(nn.Module):
    """Causal self-attention: each token looks at itself and at those before it."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.hidden, 3 * config.hidden)
        self.out = nn.Linear(config.hidden, config.hidden)

    def forward(self, x_BSH: Tensor) -> Tensor:
        q_BASD, k_BASD, v_BASD = self.qkv(x_BSH).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y_BASD = functional.scaled_dot_product_attention(q_BASD, k_BASD, v_BASD, is_causal=True)
        return self.out(y_BASD.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention, then an MLP four times as wide, each added to what came in."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(config.hidden), nn.LayerNorm(config.hidden)
        self.attention = Attention(config)
        self.up = nn.Linear(config.hidden, 4 * config.hidden)
        self.down = nn.Linear(4 * config.hidden, config.hidden)

    def forward(self, x_BSH: Tensor) -> Tensor:
        x_BSH = x_BSH + self.attention(self.norm_1(x_BSH))
        return x_BSH + self.down(functional.gelu(self.up(self.norm_2(x_BSH))))


class GPT(nn.Module):
    """Tokens in, logits of the next token out; `loss` is their cross-entropy."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.hidden)
        self.position = nn.Embedding(config.sequence, config.hidden)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.token.weight
        self.apply(_initialise)

    def forward(self, tokens_BS: Tensor) -> Tensor:
        positions_S = torch.arange(tokens_BS.shape[1], device=tokens_BS.device)
        x_BSH = self.token(tokens_BS) + self.position(positions_S)
        for block in self.blocks:
            x_BSH = block(x_BSH)
        return self.head(self.norm(x_BSH))


def next_token_loss(logits_BSV: Tensor, targets_BS: Tensor) -> Tensor:
    """The mean cross-entropy over all tokens."""
    return functional.cross_entropy(logits_BSV.flatten(0, 1), targets_BS.flatten())


def _initialise(module: nn.Module) -> None:
    """GPT-2's: normal with 0.02, biases zero."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
