"""Permute tokens to rows sorted by expert, and rows back to tokens. Except for weights, each is the other's adjoint.

Shapes: T tokens, H hidden, K choices per token, R rows, one for each choice that is not dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from shardlab.model.balance import load_of


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
