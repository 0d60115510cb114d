"""Which experts a token visits, and with which weights; a loss or a bias that balances their loads.

Shapes: T tokens, H hidden, E experts, K choices per token, G groups of experts. `load_E` counts the choices of each
expert. On several ranks it must be summed over all of them: a loss from a rank's own counts would depend on the mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from shardlab.costs.models.model import divisors

softmax = partial(torch.softmax, dim=-1)


@dataclass(frozen=True)
class Choice:
    """How each token chooses `k` of `experts`.

    score: function of the logits, `softmax` or `torch.sigmoid`. renormalise: make a token's k weights sum to 1; with
    softmax that equals the softmax of its k largest logits (Mixtral, arXiv 2401.04088, section 2.1). scale: a factor
    on all weights. groups: neighboring experts form a group, such as those of a node; groups_per_token: the number of
    groups that a token's experts may come from, 0 for all. The best groups have the largest sums of their
    k/groups_per_token largest scores (DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
    Raises ValueError, with values that would work, for more choices than experts in the allowed groups.
    """

    experts: int
    k: int
    score: Callable[[Tensor], Tensor] = softmax
    renormalise: bool = False
    scale: float = 1.0
    groups: int = 1
    groups_per_token: int = 0

    def __post_init__(self) -> None:
        if self.experts < 1 or self.groups < 1 or self.experts % self.groups:
            fits = divisors(max(1, self.experts))
            raise ValueError(f"{self.experts} experts cannot form {self.groups} groups: use a number among {fits}")
        if not 0 <= self.groups_per_token <= self.groups:
            raise ValueError(
                f"a token cannot use {self.groups_per_token} of {self.groups} groups: use 1 to {self.groups}"
            )
        if not 1 <= self.k <= self.reachable:
            raise ValueError(
                f"a token cannot choose {self.k} experts: it reaches {self.reachable} of {self.experts}, use k from 1 "
                f"to {self.reachable}" + (", or more groups" if self.limits_groups else "")
            )

    @property
    def limits_groups(self) -> bool:
        """Whether a token may not use all groups."""
        return 0 < self.groups_per_token < self.groups

    @property
    def reachable(self) -> int:
        """The number of experts among which a token can choose."""
        return self.experts // self.groups * (self.groups_per_token or self.groups)


@dataclass(frozen=True)
class Routing:
    """A router's decision for T tokens: their experts and weights, and the scores of all experts."""

    experts_TK: Tensor
    weights_TK: Tensor
    scores_TE: Tensor


def route(logits_TE: Tensor, choice: Choice, bias_E: Tensor | None = None) -> Routing:
    """Choose by score plus bias, but weight by score only, so that the bias has no gradient (arXiv 2408.15664).

    Scores are float32 or better. Raises ValueError for logits that are not finite, or the wrong number of experts.
    """
    if logits_TE.shape[-1] != choice.experts:
        raise ValueError(
            f"logits of {logits_TE.shape[-1]} experts for a choice among {choice.experts}: use that number"
        )
    scores_TE = choice.score(logits_TE.to(torch.promote_types(logits_TE.dtype, torch.float32)))
    if not torch.isfinite(scores_TE.detach().sum()):
        wrong = (~torch.isfinite(scores_TE)).any(-1).nonzero()[0].item()
        raise ValueError(
            f"the router's scores of token {wrong} are not finite: check its input and the router's weight"
        )

    preferred_TE = scores_TE.detach() if bias_E is None else scores_TE.detach() + bias_E
    if choice.limits_groups:
        preferred_TE = preferred_TE.masked_fill(~_in_best_groups(preferred_TE, choice), -torch.inf)
    experts_TK = preferred_TE.topk(choice.k, dim=-1).indices

    weights_TK = scores_TE.gather(-1, experts_TK)
    if choice.renormalise:
        weights_TK = weights_TK / (weights_TK.sum(-1, keepdim=True) + 1e-20)
    return Routing(experts_TK, weights_TK * choice.scale, scores_TE)


def _in_best_groups(preferred_TE: Tensor, choice: Choice) -> Tensor:
    """A mask [T, E] of the experts in each token's best groups."""
    by_group_TGX = preferred_TE.unflatten(-1, (choice.groups, -1))
    num_best = min(by_group_TGX.shape[-1], max(1, choice.k // choice.groups_per_token))
    worth_TG = by_group_TGX.topk(num_best, dim=-1).values.sum(-1)
    best = worth_TG.topk(choice.groups_per_token, dim=-1).indices
    chosen_TG = torch.zeros_like(worth_TG, dtype=torch.bool).scatter_(-1, best, True)
    return chosen_TG.unsqueeze(-1).expand_as(by_group_TGX).flatten(-2)


class Router(nn.Module):
    """A matrix [E, H] that gives each token a logit for each expert, and a bias that the optimizer does not update."""

    def __init__(self, hidden: int, choice: Choice) -> None:
        super().__init__()
        self.choice = choice
        self.weight = nn.Parameter(torch.empty(choice.experts, hidden))
        nn.init.normal_(self.weight, std=0.02)
        self.register_buffer("bias_E", torch.zeros(choice.experts))

    def forward(self, x_TH: Tensor) -> tuple[Routing, Tensor]:
        """The routing and its logits, in float32 or better because small differences decide."""
        dtype = torch.promote_types(x_TH.dtype, torch.float32)
        logits_TE = functional.linear(x_TH.to(dtype), self.weight.to(dtype))
        return route(logits_TE, self.choice, self.get_buffer("bias_E")), logits_TE


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
