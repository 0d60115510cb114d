"""Place experts on GPUs: the hottest experts get extra copies, and all copies are then packed evenly.

This is the hierarchical policy of DeepSeek's EPLB (github.com/deepseek-ai/EPLB): groups of experts are packed onto
nodes, so that node-limited routing reaches few nodes; on each node the hottest experts are copied to the spare places;
the copies are packed onto the node's GPUs. The global policy is the same with one group and one node. Every step is
greedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Loads = Sequence[float]


@dataclass(frozen=True)
class Placement:
    """experts[p]: the expert whose copy is at place p. Each GPU has `places_per_gpu` consecutive places."""

    experts: list[int]
    places_per_gpu: int

    def loads(self, loads: Loads) -> list[float]:
        """The load of each GPU, if the copies of an expert share its load evenly."""
        shares = [loads[expert] / self.experts.count(expert) for expert in self.experts]
        return [
            sum(shares[first : first + self.places_per_gpu]) for first in range(0, len(shares), self.places_per_gpu)
        ]

    def imbalance(self, loads: Loads) -> float:
        """The largest load of a GPU divided by the mean load."""
        by_gpu = self.loads(loads)
        return max(by_gpu) * len(by_gpu) / sum(by_gpu)

    def places_of(self, experts_TK: Tensor) -> Tensor:
        """The place [T, K] of each choice. An expert's copies are used in turn, so that they share its tokens."""
        flat, places = experts_TK.flatten(), torch.tensor(self.experts, device=experts_TK.device)
        by_expert = places.argsort(stable=True)
        copies = torch.bincount(places)
        order = flat.argsort(stable=True)
        load = torch.bincount(flat, minlength=len(copies))
        turn = torch.empty_like(flat)
        turn[order] = torch.arange(len(flat), device=flat.device) - (load.cumsum(0) - load)[flat[order]]
        first = copies.cumsum(0) - copies
        return by_expert[first[flat] + turn % copies[flat]].view_as(experts_TK)


def placed(loads: Loads, *, num_places: int, num_groups: int, num_nodes: int, num_gpus: int) -> Placement:
    """A placement for these loads: 1. groups to nodes  2. copies on each node  3. copies to its GPUs.

    num_places: experts plus their extra copies, on all GPUs. If the nodes do not divide the groups, the global policy
    is used (one group, one node). Raises ValueError for numbers that do not divide, or fewer places than experts.
    """
    if num_groups % num_nodes:
        num_groups = num_nodes = 1
    _check(len(loads), num_places, num_groups, num_nodes, num_gpus)
    size = len(loads) // num_groups
    groups = [range(first, first + size) for first in range(0, len(loads), size)]
    experts: list[int] = []
    for node in packed([sum(loads[one] for one in group) for group in groups], num_nodes):
        here = [one for group in node for one in groups[group]]
        copies = replicated([loads[one] for one in here], num_places // num_nodes)
        shares = [loads[here[one]] / copies.count(one) for one in copies]
        experts += [here[copies[place]] for gpu in packed(shares, num_gpus // num_nodes) for place in gpu]
    return Placement(experts, num_places // num_gpus)


def packed(loads: Loads, num_packs: int) -> list[list[int]]:
    """Put items into packs of equal size: heaviest item first, each into the lightest pack that still has room."""
    room = len(loads) // num_packs
    packs: list[list[int]] = [[] for _ in range(num_packs)]
    weights = [0.0] * num_packs
    if room == 1:
        return [[item] for item in range(len(loads))]
    for item in sorted(range(len(loads)), key=lambda item: -loads[item]):
        pack = min((pack for pack in range(num_packs) if len(packs[pack]) < room), key=weights.__getitem__)
        packs[pack].append(item)
        weights[pack] += loads[item]
    return packs


def replicated(loads: Loads, num_places: int) -> list[int]:
    """Every item once, then repeatedly the item with the most load per copy."""
    places, copies = list(range(len(loads))), [1] * len(loads)
    while len(places) < num_places:
        hottest = max(range(len(loads)), key=lambda item: loads[item] / copies[item])
        places.append(hottest)
        copies[hottest] += 1
    return places


def _check(num_experts: int, num_places: int, num_groups: int, num_nodes: int, num_gpus: int) -> None:
    for number, what, parts, of in (
        (num_experts, "experts", num_groups, "groups"),
        (num_gpus, "GPUs", num_nodes, "nodes"),
        (num_places, "places", num_gpus, "GPUs"),
    ):
        if parts < 1 or number % parts:
            near = max(1, number // max(1, parts)) * max(1, parts)
            raise ValueError(f"{number} {what} cannot be split over {parts} {of}: use {near} {what}")
    if num_places < num_experts:
        raise ValueError(f"{num_places} places cannot hold {num_experts} experts: use {num_experts} or more")
