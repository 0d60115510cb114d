"""Formulas for the bytes that a rank of the learner's trainer sends in one step, by axes.

Collectives are counted as rings, in float32. An axis of one rank sends nothing, so a group is identified by its axes
that have more than one rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from shardlab.costs import traffic

Weights = dict[str, Tensor]
SPLIT_BY_TP = ("q", "k", "v", "up", "head", "out", "down")  # the weights of `mine.model` that tp splits
AXES = ("tp", "cp", "ep", "dp", "pp")
COPIES, EDP, STAGE = ("cp", "ep", "dp"), ("tp", "cp", "dp"), ("tp", "cp", "ep", "dp")
FLOAT, WHOLE = 4, 8  # bytes of a float32, and of an int64 or float64
Bytes = dict[frozenset[str], float]


class Sums:
    """Adds up bytes by axes, leaving out axes of one rank."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        self.recipe, self.found = recipe, Bytes()

    def add(self, axes: tuple[str, ...], num_bytes: float) -> None:
        """Add bytes sent over the group of these axes."""
        key = frozenset(axis for axis in axes if self.recipe[axis] > 1)
        if num_bytes:
            self.found[key] = self.found.get(key, 0) + num_bytes


def sent_bytes(
    recipe: dict[str, Any], places: dict[str, int], weights: Weights, chosen: dict[int, Tensor] | None = None
) -> Bytes:
    """Bytes sent over each set of axes in a step. weights: this rank's parts. chosen: each layer's experts [B, S, k].

    The batch's rows are the sequences of all replicas, one replica after the other. Without `chosen`, the rows sent
    over ep are left out. Schedules that compute W separately send over tp, cp and ep again; that is not counted.
    """
    sums, microbatches = Sums(recipe), recipe["microbatches"]
    layers = {name.split(".")[0] for name in weights} - {"embed", "last"}
    rows = recipe["batch"] // (recipe["dp"] * recipe["ep"] * microbatches)
    add_passes(sums, places, weights, chosen or {}, rows, microbatches)
    sums.add(("pp",), microbatches * num_away(recipe, places["pp"]) * activation_bytes(recipe, rows) / recipe["tp"])
    add_sums(sums, weights, microbatches)
    is_ddp = recipe["zero"] == 0 and recipe["tp"] * recipe["cp"] * recipe["ep"] * recipe["pp"] == 1
    if recipe["zero"] == 0 and not is_ddp:  # finish_gradients sums the token counts, once more for experts
        calls = 1 + bool(recipe["experts"] and layers)
        sums.add(COPIES, calls * traffic.ring_all_reduce_bytes(_size(recipe, COPIES), WHOLE))
    ranks = [_rank_in(recipe, places, axes) for axes in (COPIES, ("pp",), STAGE)]
    sums.add(COPIES, _own_ring_bytes(_size(recipe, COPIES), ranks[0], 2))
    sums.add(("pp",), _own_ring_bytes(recipe["pp"], ranks[1], 1))
    if recipe["experts"]:
        sums.add(STAGE, len(layers) * _own_ring_bytes(_size(recipe, STAGE), ranks[2], recipe["experts"]))
    return sums.found


def axes_between(places: Sequence[dict[str, int]]) -> frozenset[str]:
    """The axes along which these ranks' coordinates differ."""
    return frozenset(axis for axis in AXES if len({one[axis] for one in places}) > 1)


def num_stages_of(recipe: dict[str, Any]) -> int:
    """The number of stages of the schedule over all ranks."""
    return recipe["pp"] * (2 if recipe["schedule"] in ("interleaved", "dualpipe-v") else 1)


def stages_of(recipe: dict[str, Any], place: int) -> list[int]:
    """The stages of one pipeline rank."""
    pp = recipe["pp"]
    second = {"interleaved": [place + pp], "dualpipe-v": [2 * pp - 1 - place]}.get(recipe["schedule"], [])
    return sorted([place, *second])


def num_away(recipe: dict[str, Any], place: int) -> int:
    """How many neighboring stages of a rank's stages are on other ranks."""
    own, last = stages_of(recipe, place), num_stages_of(recipe) - 1
    return sum(0 <= other <= last and other not in own for stage in own for other in (stage - 1, stage + 1))


def activation_bytes(recipe: dict[str, Any], rows: int) -> float:
    """Bytes of one activation: a microbatch of `rows` sequences at one cp rank's positions."""
    return rows * recipe["sequence"] // recipe["cp"] * recipe["hidden"] * FLOAT


def add_passes(
    sums: Sums, places: dict[str, int], weights: Weights, chosen: dict[int, Tensor], rows: int, microbatches: int
) -> None:
    """Add the bytes of forward and backward passes of a rank's blocks, over tp, cp and ep."""
    recipe, activation = sums.recipe, activation_bytes(sums.recipe, rows)
    layers = {name.split(".")[0] for name in weights} - {"embed", "last"}
    positions, is_last = recipe["sequence"] // recipe["cp"], any(name.startswith("last.") for name in weights)

    # tp: four all-gathers or reduce-scatters in attention, four in an MLP, and two before the loss
    passes = len(layers) * (4 if recipe["experts"] else 8) + (2 if is_last else 0)
    sums.add(("tp",), microbatches * passes * traffic.ring_all_gather_bytes(recipe["tp"], activation))
    if is_last:
        of_loss = traffic.ring_all_reduce_bytes(recipe["tp"], 3 * rows * positions * FLOAT)
        sums.add(("tp",), microbatches * of_loss)

    # cp: keys, values and positions travel around the ring; backward adds their gradients, ZeRO-3 repeats the forward
    keys, numbers, others = activation / recipe["tp"], positions * WHOLE, recipe["cp"] - 1
    forward, backward = others * (2 * keys + numbers), others * (4 * keys + numbers) + (2 * keys if others else 0)
    sums.add(("cp",), microbatches * len(layers) * (forward * (2 if recipe["zero"] == 3 else 1) + backward))

    for layer in layers if recipe["ep"] > 1 and chosen else ():
        sums.add(("ep",), _expert_bytes(recipe, places, chosen[int(layer)], microbatches))


def unit_bytes(recipe: dict[str, Any], weights: Weights) -> dict[str, int]:
    """Bytes of each unit, by "block kind", including padding."""
    units: dict[str, int] = {}
    for name, weight in weights.items():
        key = f"{name.split('.')[0]} {kind_of(name)}"
        units[key] = units.get(key, 0) + weight.numel()
    sharers = {key: _size(recipe, EDP if key.endswith("expert") else COPIES) for key in units}
    return {key: FLOAT * -(-num // sharers[key]) * sharers[key] for key, num in units.items()}


def add_sums(sums: Sums, weights: Weights, microbatches: int) -> None:
    """Add the bytes of gradient sums over tp and over copies, and of ZeRO's all-gathers of weights."""
    recipe, own = sums.recipe, unit_bytes(sums.recipe, weights)
    norms = sum(num_bytes for key, num_bytes in own.items() if key.endswith("norm"))
    sums.add(("tp",), traffic.ring_all_reduce_bytes(recipe["tp"], norms))
    times = {0: 2, 1: 2, 2: microbatches + 1, 3: 3 * microbatches}[recipe["zero"]]
    for axes in (COPIES, EDP):
        total = sum(num_bytes for key, num_bytes in own.items() if key.endswith("expert") == (axes == EDP))
        sums.add(axes, times * traffic.ring_all_gather_bytes(_size(recipe, axes), total))


def _own_ring_bytes(size: int, rank: int, num: int) -> float:
    """Bytes that a rank sends in week 1's ring all-reduce of `num` 8-byte numbers: all chunks but one, twice."""
    if size == 1:
        return 0
    chunks = [len(chunk) for chunk in torch.arange(num).tensor_split(size)]
    return WHOLE * (2 * num - chunks[rank] - chunks[(rank + 1) % size])


def _expert_bytes(recipe: dict[str, Any], places: dict[str, int], chosen: Tensor, microbatches: int) -> float:
    """Bytes that a rank sends over ep for one layer: rows to experts, results back, and both in the backward."""
    ep, per_rank = recipe["ep"], recipe["experts"] // recipe["ep"]
    row, total = recipe["hidden"] * FLOAT, 0.0
    for number in range(microbatches):
        sent = [_rows_to(recipe, places | {"ep": rank}, chosen, per_rank, (number, microbatches)) for rank in range(ep)]
        here = places["ep"]
        leaving = sum(sent[here][there] for there in range(ep) if there != here)
        coming = sum(sent[there][here] for there in range(ep) if there != here)
        total += 2 * row * leaving + 2 * row * coming  # rows and results, forward and backward
        total += leaving * WHOLE + 3 * (ep - 1) * WHOLE  # expert indices, and counts before each exchange
    return total


def _rows_to(
    recipe: dict[str, Any], places: dict[str, int], chosen: Tensor, per_rank: int, part: tuple[int, int]
) -> list[int]:
    """Rows of one microbatch that a rank sends to each ep rank. part: (index of the microbatch, number of them)."""
    replica = places["dp"] * recipe["ep"] + places["ep"]
    rows = chosen.chunk(recipe["dp"] * recipe["ep"])[replica].chunk(part[1])[part[0]]
    length = recipe["sequence"]
    chunks = torch.arange(length).chunk(2 * recipe["cp"])
    mine = torch.cat([chunks[places["cp"]], chunks[2 * recipe["cp"] - 1 - places["cp"]]])
    here = rows[:, mine.chunk(recipe["tp"])[places["tp"]]]
    return torch.bincount(here.flatten() // per_rank, minlength=recipe["ep"]).tolist()


def kind_of(name: str) -> str:
    if ".expert." in name:
        return "expert"
    return "split" if name.rsplit(".", maxsplit=1)[-1] in SPLIT_BY_TP else "norm"


def _size(recipe: dict[str, Any], axes: tuple[str, ...]) -> int:
    return torch.Size([recipe[axis] for axis in axes]).numel()


def _rank_in(recipe: dict[str, Any], places: dict[str, int], axes: tuple[str, ...]) -> int:
    """The rank within a group over these axes; the first axis changes fastest."""
    rank, stride = 0, 1
    for axis in AXES:
        if axis in axes:
            rank += stride * places[axis]
            stride *= recipe[axis]
    return rank
