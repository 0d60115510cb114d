"""How many rows an expert takes, and which choices are dropped when more come."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from shardlab.model.router import Choice, Routing


@dataclass(frozen=True)
class Capacity:
    """Each expert takes ceil(factor * T * k / E) choices, `factor` times its even share; the rest is dropped.

    by_score: the choices with the largest weights stay, otherwise the first tokens'. padded: where ranks exchange rows,
    an expert that gets less is filled up with zeros, so that no shape ever changes.
    A batch is that of one rank: on many ranks each drops from its own.
    Raises ValueError for a factor that is not above 0, or that gives an expert less than one row.
    Source: GShard, arXiv 2006.16668, section 2.2.
    """

    factor: float
    by_score: bool = False
    padded: bool = False

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"a capacity factor of {self.factor} leaves every expert without a row: use 1.0 or more")

    def rows(self, num_tokens: int, choice: Choice) -> int:
        """Rows of each expert for so many tokens."""
        rows = self.factor * num_tokens * choice.k / choice.experts
        if num_tokens and rows < 1:
            least = choice.experts / (num_tokens * choice.k)
            raise ValueError(
                f"a capacity of {rows:.3g} rows: {num_tokens} tokens choose {choice.k} of {choice.experts} experts; "
                f"use a factor of {ceil(100 * least) / 100:g} or more, or more tokens"
            )
        return ceil(rows)

    def kept(self, routing: Routing, choice: Choice) -> Tensor:
        """Which choices [T, K] stay."""
        places_TK = _places(routing, by_score=self.by_score)
        return places_TK < self.rows(len(places_TK), choice)


def _places(routing: Routing, *, by_score: bool) -> Tensor:
    """The place [T, K] of each choice among those of its expert."""
    experts = routing.experts_TK.flatten()
    order = torch.arange(len(experts), device=experts.device)
    if by_score:
        order = routing.weights_TK.detach().flatten().argsort(descending=True, stable=True)
    order = order[experts[order].argsort(stable=True)]  # by expert, within by token or score
    load = torch.bincount(experts)
    first = load.cumsum(0) - load
    places = torch.empty_like(experts)
    places[order] = torch.arange(len(experts), device=experts.device) - first[experts[order]]
    return places.view_as(routing.experts_TK)
