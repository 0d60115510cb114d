"""Load balancing between experts: with an auxiliary loss, or with a bias and no loss.

Shapes: T tokens, E experts, K choices per token. `load_E` counts the choices of each expert. On several ranks it must
be summed over all of them: a loss from each rank's own counts would depend on the mesh.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shardlab.model.router import Routing


def load_of(experts_TK: Tensor, num_experts: int) -> Tensor:
    """The number of choices of each expert, [E]."""
    chosen = experts_TK.flatten()
    return chosen.new_zeros(num_experts).index_add_(
        0, chosen, torch.ones_like(chosen)
    )  # bincount would sync with a GPU


def auxiliary_loss(routing: Routing, load_E: Tensor | None = None) -> Tensor:
    """E * sum over experts of (share of choices) * (mean score): 1 for a uniform router, E if one expert takes all.

    Each token's scores are normalized to sum to 1, as softmax scores already do. Only the mean score has a gradient
    (Switch Transformers, arXiv 2101.03961, equations 4 to 6). The loss is 0 without tokens.
    """
    scores_TE = routing.scores_TE
    load_E = load_of(routing.experts_TK, scores_TE.shape[-1]) if load_E is None else load_E
    share_E = load_E.to(scores_TE.dtype) / load_E.sum().clamp(min=1)
    mean_E = (scores_TE / scores_TE.sum(-1, keepdim=True)).sum(0) / max(1, len(scores_TE))
    return scores_TE.shape[-1] * (share_E * mean_E).sum()


def z_loss(logits_TE: Tensor) -> Tensor:
    """The mean square of the logsumexp of a token's logits, to keep them small (ST-MoE, arXiv 2202.08906, eq. 5)."""
    return logits_TE.logsumexp(-1).square().sum() / max(1, len(logits_TE))


def updated_bias(bias_E: Tensor, load_E: Tensor, *, rate: float = 1e-3) -> Tensor:
    """The bias after a step: up by `rate` for experts with less than the mean load, down for those with more.

    Apply it once per step, after the update (arXiv 2408.15664, algorithm 1; DeepSeek-V3 uses rate 0.001).
    """
    return bias_E + rate * torch.sign(load_E.sum() - len(load_E) * load_E)  # whole numbers, exact beyond 2^24


def with_loss(y: Tensor, loss: Tensor) -> Tensor:
    """Return y; its backward also sends a gradient of 1 into `loss`, as if it were added to the training loss.

    A layer can then have its own loss, independent of the code around it (Megatron-Core, moe_utils.py,
    MoEAuxLossAutoScaler). Use the returned tensor, because the original y has no such gradient. With m microbatches,
    pass loss / m.
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
