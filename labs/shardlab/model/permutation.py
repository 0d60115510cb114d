"""Permute tokens to rows sorted by expert, and rows back to tokens. Except for weights, each is the other's adjoint.

`Capacity` says how many rows an expert accepts, and which choices are dropped when there are more.

Shapes: T tokens, H hidden, K choices per token, R rows, one for each choice that is not dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from shardlab.model.router import Choice, Routing, load_of


@dataclass(frozen=True)
class Rows:
    """The choices of T tokens as rows, sorted by expert and then by token.

    choice_R: for each row, the index t * K + k of its choice. row_TK: for each choice, its row, or 0 if it was dropped.
    kept_TK: which choices have a row, None for all. counts_E: rows of each expert.
    """

    choice_R: Tensor
    row_TK: Tensor
    kept_TK: Tensor | None
    counts_E: Tensor

    @cached_property
    def token_R(self) -> Tensor:
        """The token of each row."""
        return self.choice_R // self.row_TK.shape[1]

    @cached_property
    def sizes(self) -> list[int]:
        """Rows of each expert as numbers on the host, which has to wait for the GPU's count."""
        return self.counts_E.tolist()


def rows_by_expert(experts_TK: Tensor, num_experts: int, kept_TK: Tensor | None = None) -> Rows:
    """Sort the choices by expert; those that are not kept have no row."""
    experts = experts_TK.flatten() if kept_TK is None else experts_TK.masked_fill(~kept_TK, num_experts).flatten()
    counts_E = load_of(experts, num_experts + 1)[:num_experts]
    choice_R = experts.argsort(stable=True)
    if kept_TK is not None:
        choice_R = choice_R[: int(counts_E.sum())]
    row = torch.zeros_like(experts).scatter_(0, choice_R, torch.arange(len(choice_R), device=experts.device))
    return Rows(choice_R, row.view_as(experts_TK), kept_TK, counts_E)


def to_rows(x_TH: Tensor, rows: Rows) -> Tensor:
    """Copy each token once per choice, [R, H]. Backward: a token's gradient is the sum of its rows' gradients."""
    return _ToRows.apply(x_TH, rows)


def from_rows(y_RH: Tensor, weights_TK: Tensor, rows: Rows) -> Tensor:
    """The weighted sum [T, H] of each token's rows; zeros for a token without rows."""
    return _FromRows.apply(y_RH, weights_TK.to(y_RH.dtype), rows)


class _ToRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_TH: Tensor, rows: Rows) -> Tensor:
        ctx.rows = rows
        return x_TH.index_select(0, rows.token_R)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _summed(gradients[0], None, ctx.rows), None


class _FromRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y_RH: Tensor, weights_TK: Tensor, rows: Rows) -> Tensor:
        ctx.save_for_backward(y_RH, weights_TK)
        ctx.rows = rows
        return _summed(y_RH, weights_TK, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (y_RH, weights_TK), rows = ctx.saved_tensors, ctx.rows
        gradient_RH = gradients[0].index_select(0, rows.token_R)
        of_weights = torch.zeros_like(weights_TK)
        of_weights.view(-1)[rows.choice_R] = torch.linalg.vecdot(gradient_RH, y_RH)
        return gradient_RH.mul_(weights_TK.view(-1)[rows.choice_R].unsqueeze(-1)), of_weights, None


def _summed(y_RH: Tensor, weights_TK: Tensor | None, rows: Rows) -> Tensor:
    """Each token's weighted sum of its rows, in one pass over the rows; without weights, a plain sum."""
    if not len(y_RH) or not len(rows.row_TK):
        return y_RH.new_zeros(len(rows.row_TK), y_RH.shape[1])
    if rows.kept_TK is not None:
        weights_TK = rows.kept_TK.to(y_RH.dtype) if weights_TK is None else weights_TK * rows.kept_TK
    return functional.embedding_bag(rows.row_TK, y_RH.contiguous(), mode="sum", per_sample_weights=weights_TK)


@dataclass(frozen=True)
class Capacity:
    """Each expert accepts ceil(factor * T * k / E) choices, `factor` times its even share; the rest is dropped.

    by_score: keep the choices with the largest weights instead of those of the first tokens. padded: when ranks
    exchange rows, pad experts that get fewer with zeros, so that shapes never change.
    The batch is one rank's: with several ranks, each drops from its own batch.
    Raises ValueError for a factor of 0 or less, or one that gives an expert less than one row.
    Source: GShard, arXiv 2006.16668, section 2.2.
    """

    factor: float
    by_score: bool = False
    padded: bool = False

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"a capacity factor of {self.factor} leaves every expert without a row: use 1.0 or more")

    def rows(self, num_tokens: int, choice: Choice) -> int:
        """Rows of each expert for `num_tokens` tokens."""
        rows = self.factor * num_tokens * choice.k / choice.experts
        if num_tokens and rows < 1:
            least = choice.experts / (num_tokens * choice.k)
            raise ValueError(
                f"a capacity of {rows:.3g} rows: {num_tokens} tokens choose {choice.k} of {choice.experts} experts; "
                f"use a factor of {ceil(100 * least) / 100:g} or more, or more tokens"
            )
        return ceil(rows)

    def kept(self, routing: Routing, choice: Choice) -> Tensor:
        """A mask [T, K] of the choices that are kept."""
        places_TK = _places(routing, by_score=self.by_score)
        return places_TK < self.rows(len(places_TK), choice)


def _places(routing: Routing, *, by_score: bool) -> Tensor:
    """The position [T, K] of each choice among those of its expert."""
    experts = routing.experts_TK.flatten()
    order = torch.arange(len(experts), device=experts.device)
    if by_score:
        order = routing.weights_TK.detach().flatten().argsort(descending=True, stable=True)
    order = order[experts[order].argsort(stable=True)]  # by expert, then by token or score
    load = torch.bincount(experts)
    first = load.cumsum(0) - load
    places = torch.empty_like(experts)
    places[order] = torch.arange(len(experts), device=experts.device) - first[experts[order]]
    return places.view_as(routing.experts_TK)
