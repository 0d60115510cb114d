"""The gradient norm of a model that is sharded over all axes: every element of the model counts once.

Each rank divides what it holds by the number of ranks that hold the same: tp ranks that all have a norm, dp ranks
without ZeRO, copies of an expert, neighbors that share a key-value head. Padding and twins do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from shardlab.hybrid.places import FlatShard, ParameterPlace, fragments
from shardlab.hybrid.sums import gradient_of
from shardlab.hybrid.weights import MasterShard, Weights
from shardlab.mesh.gradient_norm import squared_norm


class Owned(NamedTuple):
    """A slice of a parameter, the blocks of the whole tensor it covers, and the weights it belongs to."""

    slice: MasterShard
    place: ParameterPlace
    fragments: list[FlatShard]
    weights: Weights


def owned_by(weights: Weights, places: Mapping[nn.Parameter, ParameterPlace]) -> list[Owned]:
    """The slices of a stage's parameters that this rank updates, with their blocks."""
    found = []
    for one in weights.slices():
        place = places[one.parameter]
        blocks = fragments(place, one.parameter.shape, one.begin, one.end, at=one.at)
        found.append(Owned(one, place, blocks, weights))
    return found


@torch.no_grad()
def squares_of(owned: Iterable[Owned]) -> float:
    """This rank's share of the sum of squares of the whole model's gradient."""
    total = 0.0
    for one in owned:
        if one.place.is_twin:
            continue
        gradient = gradient_of(one.slice)
        for block in one.fragments:
            total += squared_norm([block.of(gradient)]).item() / (block.copies * one.weights.copies)
    return total


def summed(numbers: Sequence[float], *, group: dist.ProcessGroup, device: torch.device) -> list[float]:
    """Sum some numbers over all ranks in one float64 all-reduce. Every rank gets the same sums."""
    mine = torch.tensor(numbers, dtype=torch.float64, device=device)
    dist.all_reduce(mine, group=group)
    return mine.tolist()


def check_finite(
    norm: float, bad: Iterable[ParameterPlace], owned: Iterable[Owned], *, group: dist.ProcessGroup
) -> None:
    """If the norm is not finite, raise the same NotFinite on every rank, naming the first rank and gradient to blame.

    bad: this rank's own gradients that were not finite before any sum. A sum spreads NaN over its whole group, so the
    sums in `owned` are blamed only if no rank has a bad gradient itself. Every rank passes the same norm, and the
    ranks exchange details only if it is not finite.
    """
    if torch.isfinite(torch.tensor(norm)):
        return
    own = next((place.name for place in bad), "")
    in_a_sum = next((one.place.name for one in owned if not gradient_of(one.slice).isfinite().all()), "")
    by_rank: list[tuple[str, str]] = [("", "")] * dist.get_world_size(group)
    dist.all_gather_object(by_rank, (own, in_a_sum), group=group)
    blamed = [(rank, name) for names in zip(*by_rank, strict=True) for rank, name in enumerate(names) if name]
    raise NotFinite(*(blamed or [(0, "the loss")])[0])


class NotFinite(ValueError):
    """A gradient is infinite or NaN. No weight was changed."""

    def __init__(self, rank: int, name: str) -> None:
        self.rank, self.name = rank, name
        super().__init__(
            f"rank {rank}: the gradient of {name} is infinite or not a number. No weight was changed. Check the "
            "batch and the loss, or lower the learning rate"
        )
