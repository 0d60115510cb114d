"""Bytes that a rank of the learner's trainer sends in one step, by the axes that it sends them over: formulas.

Collectives are counted as rings, in float32. An axis of one rank sends nothing, so that a group is known by its axes of
more than one rank.
"""

from __future__ import annotations

from typing import Any

import torch
from shardlab.costs import traffic
from torch import Tensor

from autograder.weeks.week15_capstone_build._one_process import CHOSEN, SPLIT_BY_TP, Weights

AXES = ("tp", "cp", "ep", "dp", "pp")
COPIES, EDP, STAGE = ("cp", "ep", "dp"), ("tp", "cp", "dp"), ("tp", "cp", "ep", "dp")
FLOAT, WHOLE = 4, 8  # bytes of a number, and of a whole number or a double
Bytes = dict[frozenset[str], float]


def sent_bytes(
    recipe: dict[str, Any], places: dict[str, int], weights: Weights, chosen: dict[int, Tensor] | None = None
) -> Bytes:
    """Bytes over each set of axes. weights: this rank's parts; chosen: of each layer the experts [B, S, k] of a batch.

    The rows of the batch are the sequences of all replicas, one replica after the other.
    """
    found: Bytes = {}

    def add(axes: tuple[str, ...], num_bytes: float) -> None:
        key = frozenset(axis for axis in axes if recipe[axis] > 1)
        if num_bytes:
            found[key] = found.get(key, 0) + num_bytes

    layers = {name.split(".")[0] for name in weights} - {"embed", "last"}
    microbatches = recipe["microbatches"]
    rows = recipe["batch"] // (recipe["dp"] * recipe["ep"] * microbatches)
    positions = recipe["sequence"] // recipe["cp"]
    activation = rows * positions * recipe["hidden"] * FLOAT  # of all positions of this cp rank
    is_last = any(name.startswith("last.") for name in weights)

    # tp: an all-gather or a reduce-scatter four times a layer, the loss, and what norms have of the sum
    half = traffic.ring_all_gather_bytes(recipe["tp"], activation)
    passes = len(layers) * (4 if recipe["experts"] else 8) + (2 if is_last else 0)
    add(("tp",), microbatches * passes * half)
    if is_last:
        add(("tp",), microbatches * traffic.ring_all_reduce_bytes(recipe["tp"], 3 * rows * positions * FLOAT))

    # cp: keys, values and positions go round, and in the backward their gradients as well
    keys, numbers, others = activation / recipe["tp"], positions * WHOLE, recipe["cp"] - 1
    round_trip = others * (6 * keys + 2 * numbers) + (2 * keys if others else 0)
    add(("cp",), microbatches * len(layers) * round_trip)

    # pp: an activation to the next stage, its gradient to the one before
    neighbors = (places["pp"] > 0) + (places["pp"] < recipe["pp"] - 1)
    add(("pp",), microbatches * neighbors * activation / recipe["tp"])

    # ep: rows there and back, their gradients too, and the numbers of their experts
    for layer in layers if recipe["ep"] > 1 else ():
        add(("ep",), _expert_bytes(recipe, places, (chosen or {})[int(layer)]))

    _add_sums(recipe, places, weights, len(layers), add)
    return found


def _add_sums(recipe: dict[str, Any], places: dict[str, int], weights: Weights, num_layers: int, add: Any) -> None:
    """Sums of gradients, ZeRO's gathers, and a few small numbers."""
    copies, edp = _size(recipe, COPIES), _size(recipe, EDP)
    units: dict[tuple[str, str], int] = {}
    for name, weight in weights.items():
        key = name.split(".")[0], _kind(name)
        units[key] = units.get(key, 0) + weight.numel()
    own = {key: FLOAT * _padded(num, edp if key[1] == "expert" else copies) for key, num in units.items()}
    norms = sum(num_bytes for key, num_bytes in own.items() if key[1] == "norm")
    add(("tp",), traffic.ring_all_reduce_bytes(recipe["tp"], norms))
    for axes, num in ((COPIES, copies), (EDP, edp)):
        mine = [num_bytes for key, num_bytes in own.items() if (key[1] == "expert") == (axes == EDP)]
        total = sum(mine)
        part = traffic.ring_all_gather_bytes(num, total)
        times = {0: 2, 1: 2, 2: recipe["microbatches"] + 1, 3: 3 * recipe["microbatches"]}[recipe["zero"]]
        add(axes, times * part)

    is_ddp = recipe["zero"] == 0 and recipe["tp"] * recipe["cp"] * recipe["ep"] * recipe["pp"] == 1
    if recipe["zero"] == 0 and not is_ddp:  # finish_gradients adds up the tokens, for experts once more
        calls = 1 + any(key[1] == "expert" for key in units)
        add(COPIES, calls * traffic.ring_all_reduce_bytes(copies, WHOLE))
    ranks = [_rank_in(recipe, places, axes) for axes in (COPIES, ("pp",), STAGE)]
    add(COPIES, _own_ring_bytes(copies, ranks[0], 2))
    add(("pp",), _own_ring_bytes(recipe["pp"], ranks[1], 1))
    if recipe["experts"]:
        add(STAGE, num_layers * _own_ring_bytes(_size(recipe, STAGE), ranks[2], recipe["experts"]))


def _own_ring_bytes(size: int, rank: int, num: int) -> float:
    """What a rank sends in week 1's ring for `num` numbers of 8 bytes: all chunks but one, twice."""
    if size == 1:
        return 0
    chunks = [len(chunk) for chunk in torch.arange(num).tensor_split(size)]
    return WHOLE * (2 * num - chunks[rank] - chunks[(rank + 1) % size])


def _expert_bytes(recipe: dict[str, Any], places: dict[str, int], chosen: Tensor) -> float:
    """What a rank sends over ep for a layer: of its own tokens in the forward, of others' in the backward."""
    ep, per_rank = recipe["ep"], recipe["experts"] // recipe["ep"]
    row, total = recipe["hidden"] * FLOAT, 0.0
    for microbatch in range(recipe["microbatches"]):
        sent = [_rows_to(recipe, places | {"ep": rank}, chosen, per_rank, microbatch) for rank in range(ep)]
        here = places["ep"]
        leaving = sum(sent[here][there] for there in range(ep) if there != here)
        coming = sum(sent[there][here] for there in range(ep) if there != here)
        total += 2 * row * leaving + 2 * row * coming  # there and back, in both directions
        total += leaving * WHOLE + 3 * (ep - 1) * WHOLE  # numbers of experts, and counts before each exchange
    return total


def _rows_to(
    recipe: dict[str, Any], places: dict[str, int], chosen: Tensor, per_rank: int, microbatch: int
) -> list[int]:
    """Rows that a rank's tokens of a microbatch send to each ep rank."""
    replica = places["dp"] * recipe["ep"] + places["ep"]
    rows = chosen.chunk(recipe["dp"] * recipe["ep"])[replica].chunk(recipe["microbatches"])[microbatch]
    length = recipe["sequence"]
    chunks = torch.arange(length).chunk(2 * recipe["cp"])
    mine = torch.cat([chunks[places["cp"]], chunks[2 * recipe["cp"] - 1 - places["cp"]]])
    here = rows[:, mine.chunk(recipe["tp"])[places["tp"]]]
    return torch.bincount(here.flatten() // per_rank, minlength=recipe["ep"]).tolist()


def _kind(name: str) -> str:
    if ".expert." in name:
        return "expert"
    return "split" if name.rsplit(".", maxsplit=1)[-1] in SPLIT_BY_TP else "norm"


def _padded(num: int, ranks: int) -> int:
    return -(-num // ranks) * ranks


def _size(recipe: dict[str, Any], axes: tuple[str, ...]) -> int:
    return torch.Size([recipe[axis] for axis in axes]).numel()


def _rank_in(recipe: dict[str, Any], places: dict[str, int], axes: tuple[str, ...]) -> int:
    """The rank within a group over these axes; the first one changes fastest."""
    rank, stride = 0, 1
    for axis in AXES:
        if axis in axes:
            rank += stride * places[axis]
            stride *= recipe[axis]
    return rank


__all__ = ["CHOSEN", "sent_bytes"]
