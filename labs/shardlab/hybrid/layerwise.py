"""A model that is never whole on any rank: each part is initialized on demand, from its own seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch
from torch import nn

from shardlab.model.dropout import Dropout
from shardlab.model.gpt import GPT, Block, GPTConfig, initialise
from shardlab.model.moe import MoEConfig
from shardlab.model.moe_gpt import MoEBlock, MoEGPT, initialise_experts


class LayerByLayer:
    """The parts of a GPT, with experts if `moe` is given. A rank builds only its stages' parts.

    The weights of a part depend only on the seed and the part's name, not on the rank that builds it. `whole()` builds
    the same model in one piece.
    """

    def __init__(self, config: GPTConfig, moe: MoEConfig | None = None, *, seed: int = 0) -> None:
        self.config, self.moe, self.seed = config, moe, seed
        self.blocks = _Blocks(self)

    @property
    def token(self) -> nn.Module:
        return self._drawn("token", lambda: nn.Embedding(self.config.vocabulary, self.config.hidden))

    @property
    def position(self) -> nn.Module | None:
        if self.config.rope:
            return None
        return self._drawn("position", lambda: nn.Embedding(self.config.sequence, self.config.hidden))

    @property
    def dropout(self) -> nn.Module:
        return Dropout(self.config.dropout)

    @property
    def norm(self) -> nn.Module:
        return nn.LayerNorm(self.config.hidden)

    @property
    def head(self) -> nn.Module:
        head = nn.Linear(self.config.hidden, self.config.vocabulary, bias=False)
        if self.config.tied:
            head.weight = self.token.weight  # type: ignore[assignment]
            return head
        return self._drawn("head", lambda: head)

    def block(self, layer: int) -> nn.Module:
        """The block with index `layer`."""
        moe = self.moe
        return self._drawn(f"blocks.{layer}", lambda: MoEBlock(self.config, moe) if moe else Block(self.config))

    def whole(self) -> GPT:
        """All parts as one model."""
        model = GPT(self.config) if self.moe is None else MoEGPT(self.config, self.moe)
        model.token, model.position, model.norm, model.head = self.token, self.position, self.norm, self.head  # type: ignore[assignment]
        model.blocks = nn.ModuleList(self.blocks[layer] for layer in range(self.config.layers))
        if self.config.tied:
            model.head.weight = model.token.weight
        return model

    def _drawn(self, name: str, build: Callable[[], nn.Module]) -> nn.Module:
        """Build and initialize a part from its own seed, without advancing the global random generator."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32(f"{self.seed} {name}".encode()))
            part = build()
            part.apply(initialise)
            if isinstance(part, MoEBlock):
                initialise_experts(part)
        return part


class _Blocks:
    def __init__(self, model: LayerByLayer) -> None:
        self._model = model

    def __getitem__(self, layer: int) -> nn.Module:
        return self._model.block(layer)
