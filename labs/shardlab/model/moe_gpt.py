"""The small GPT with MoE layers instead of MLPs, and a measure of how much its experts have specialized.

Shapes: B batch, S sequence, H hidden, T tokens, K choices per token.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from shardlab.model.attention import Attention
from shardlab.model.dropout import Dropout
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.router import Router, Routing, load_of
from shardlab.model.text import KINDS, VOCABULARY, kind_of


class MoEBlock(nn.Module):
    """Attention, then an MoE layer, each with a residual connection."""

    def __init__(self, config: GPTConfig, moe: MoEConfig) -> None:
        super().__init__()
        kv_heads = config.kv_heads or config.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(config.hidden), nn.LayerNorm(config.hidden)
        self.attention = Attention(
            config.hidden, config.heads, kv_heads, dropout=config.dropout, flash=config.flash, rope=config.rope
        )
        self.moe = MoE(moe)
        self.dropout_1, self.dropout_2 = Dropout(config.dropout), Dropout(config.dropout)

    def forward(self, x_BSH: Tensor, positions: Tensor | None = None) -> Tensor:
        where = () if positions is None else (positions,)
        x_BSH = x_BSH + self.dropout_1(self.attention(self.norm_1(x_BSH), *where))
        return x_BSH + self.dropout_2(self.moe(self.norm_2(x_BSH)))


class MoEGPT(GPT):
    """Maps tokens to logits; every block has experts. Fine-grained experts plus a shared one learn best (DeepSeekMoE).

    Raises ValueError if the experts have another hidden size.
    """

    def __init__(self, config: GPTConfig, moe: MoEConfig) -> None:
        if moe.hidden != config.hidden:
            raise ValueError(f"experts of hidden size {moe.hidden} in a model of {config.hidden}: use one size")
        super().__init__(config)
        self.blocks = nn.ModuleList(MoEBlock(config, moe) for _ in range(config.layers))
        initialise_experts(self.blocks)


def initialise_experts(blocks: nn.Module) -> None:
    """GPT-2's initialization for all matrices except the routers', which are already initialized."""
    for name, one in blocks.named_parameters():
        if one.dim() == 2 and not name.endswith("router.weight"):
            nn.init.normal_(one, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(one)


@torch.no_grad()
def routed(model: nn.Module, tokens_BS: Tensor) -> list[tuple[Routing, Tensor]]:
    """The routing of the tokens by each router of a model, and its logits [T, E], layer by layer."""
    seen: list[Any] = []
    hooks = [
        one.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
        for one in model.modules()
        if isinstance(one, Router)
    ]
    model(tokens_BS)
    for hook in hooks:
        hook.remove()
    return seen


def visits_by_kind(experts_TK: Tensor, tokens_T: Tensor, num_experts: int) -> dict[str, list[int]]:
    """For each kind of token, the number of choices of each expert, in the order of `KINDS`."""
    kinds = [kind_of(token) for token in range(VOCABULARY)]
    of_kind = {kind: torch.tensor([one == kind for one in kinds])[tokens_T] for kind in [*KINDS, "other"]}
    return {kind: load_of(experts_TK[mine], num_experts).tolist() for kind, mine in of_kind.items()}


def specialisation(experts_TK: Tensor, tokens_T: Tensor) -> float:
    """Bits of information about a token in the choice of its expert: 0 if all experts see the same mix of tokens.

    This is the mutual information of token and expert, over all T*K choices.
    """
    tokens = tokens_T.unsqueeze(-1).expand_as(experts_TK).flatten()
    counts = torch.zeros(int(tokens.max()) + 1, int(experts_TK.max()) + 1, dtype=torch.float64)
    counts.index_put_((tokens, experts_TK.flatten()), torch.ones((), dtype=torch.float64), accumulate=True)
    joint = counts / counts.sum()
    apart = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)
    seen = joint > 0
    return (joint[seen] * (joint[seen] / apart[seen]).log2()).sum().item()
