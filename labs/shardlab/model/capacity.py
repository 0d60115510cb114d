"""How many rows an expert accepts, and which choices are dropped when there are more."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from shardlab.model.router import Choice, Routing


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
