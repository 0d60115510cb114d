"""Balance between experts: a loss that asks for it, or a bias that brings it about without one.

Shapes: T tokens, E experts, K choices of a token. `load_E` counts the choices of each expert. On many ranks it is the
sum over all of them: a loss of each rank's own counts would be another one on another mesh.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shardlab.model.router import Routing


def load_of(experts_TK: Tensor, num_experts: int) -> Tensor:
    """How many choices fell on each expert, [E]."""
    chosen = experts_TK.flatten()
    return chosen.new_zeros(num_experts).index_add_(0, chosen, torch.ones_like(chosen))  # bincount waits for a GPU


def auxiliary_loss(routing: Routing, load_E: Tensor | None = None) -> Tensor:
    """E * sum over experts of (share of choices) * (mean score): 1 for a uniform router, E for one that takes all.

    Scores are divided by a token's sum of them, which is 1 for softmax. Only the mean score has a gradient (Switch
    Transformers, arXiv 2101.03961, equations 4 to 6). No tokens: 0.
    """
    scores_TE = routing.scores_TE
    load_E = load_of(routing.experts_TK, scores_TE.shape[-1]) if load_E is None else load_E
    share_E = load_E.to(scores_TE.dtype) / load_E.sum().clamp(min=1)
    mean_E = (scores_TE / scores_TE.sum(-1, keepdim=True)).sum(0) / max(1, len(scores_TE))
    return scores_TE.shape[-1] * (share_E * mean_E).sum()


def z_loss(logits_TE: Tensor) -> Tensor:
    """The mean square of log sum exp of a token's logits, which keeps them small (ST-MoE, arXiv 2202.08906, eq. 5)."""
    return logits_TE.logsumexp(-1).square().sum() / max(1, len(logits_TE))


def updated_bias(bias_E: Tensor, load_E: Tensor, *, rate: float = 1e-3) -> Tensor:
    """The bias after a step: up by `rate` for experts with less than the mean load, down for those with more.

    Once a step, after the update (arXiv 2408.15664, algorithm 1; DeepSeek-V3 has rate 0.001).
    """
    return bias_E + rate * torch.sign(load_E.sum() - len(load_E) * load_E)  # whole numbers, exact beyond 2^24


def with_loss(y: Tensor, loss: Tensor) -> Tensor:
    """y itself; its backward also sends a gradient of 1 into `loss`, as if that had been added to the training's loss.

    So a layer can have a loss of its own, whatever surrounds it (Megatron-Core, moe_utils.py, MoEAuxLossAutoScaler).
    Use what is returned: a y without it has no such gradient. With m microbatches give loss / m.
    """
    return _WithLoss.apply(y, loss)


class _WithLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, loss: Tensor) -> Tensor:
        ctx.save_for_backward(loss)
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        return gradients[0], torch.ones_like(ctx.saved_tensors[0])
