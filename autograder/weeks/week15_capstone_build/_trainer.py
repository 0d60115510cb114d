"""Shared by the trainer's five checks: recipes, fresh weights and text, the groups of a mesh, and its units.

A case is a recipe, such as {"tp": 2, "zero": 1}; `SMALL` has the other values. A unit's name is "block kind", such as
"0 split".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import torch
from shardlab.mesh import Grid
from shardlab.own.step_bytes import AXES, COPIES, EDP, STAGE, Sums, kind_of
from torch import Tensor

from autograder.checks.base import Case, Reply, Task, calls_of, size, wrong_value
from autograder.weeks.week15_capstone_build._one_process import DEFAULTS, Weights, own_part

MASKED = tuple(
    f"shardlab.{name}"
    for name in (
        *("data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"),
        *("hybrid", "train", "mesh", "collectives"),
    )
)
GROUPS = {axis: (axis,) for axis in AXES} | {"alone": (), "copies": COPIES, "edp": EDP, "stage": STAGE}
SMALL = {"layers": 2, "hidden": 16, "heads": 4, "sequence": 16, "vocabulary": 24, "batch": 8, "steps": 2}
SAME = 1e-4  # relative to the largest number, in float32, because sums run in a different order
SLACK = 1024  # bytes for a rank's few small messages: tokens, losses, loads
NUM_SEQUENCES = 24


def recipe_of(case: Case) -> dict[str, Any]:
    """The whole recipe of a case."""
    return DEFAULTS | SMALL | {key: value for key, value in case.items() if key in DEFAULTS}


def world_of(recipe: Mapping[str, Any]) -> int:
    """The number of ranks a recipe needs."""
    return grid_of(recipe).world


def grid_of(recipe: Mapping[str, Any]) -> Grid:
    """A recipe's ranks on five axes, tp first."""
    return Grid(tuple((axis, recipe[axis]) for axis in AXES))


def groups_of(recipe: Mapping[str, Any]) -> tuple[list[Any], list[dict[str, int]]]:
    """All groups of a task, each set of ranks once, and each rank's group numbers by name."""
    grid = grid_of(recipe)
    made: dict[tuple[int, ...], int] = {}
    mine: list[dict[str, int]] = [{} for _ in range(grid.world)]
    for name, axes in GROUPS.items():
        for members in grid.groups(*axes) if axes else ([rank] for rank in range(grid.world)):
            number = made.setdefault(tuple(members), len(made))
            for rank in members:
                mine[rank][name] = number
    return [list(members) for members in made], mine


def task_of(
    call: str, recipe: dict[str, Any], args: list[list[Any]], expected: list[Any], bytes_of: list[Sums], **facts: Any
) -> Task:
    """A task in which every rank calls the same function; `bytes_of` has each rank's expected bytes by axes."""
    made, mine = groups_of(recipe)
    inputs = [{"args": own, "groups": groups} for own, groups in zip(args, mine, strict=True)]
    return Task(call, world_of(recipe), inputs, expected, made, {"bytes": bytes_of, **facts})


def places(recipe: Mapping[str, Any]) -> list[dict[str, int]]:
    """Each rank's coordinate on every axis."""
    grid = grid_of(recipe)
    return [grid.coordinates(rank) for rank in range(grid.world)]


# ---- fresh models ----------------------------------------------------------------------------------------------------


def fresh_weights(recipe: Mapping[str, Any], rng: Random) -> Weights:
    """The whole model's weights, drawn at random, with the names of `mine.model`."""
    generator, h, n = torch.Generator().manual_seed(rng.randrange(1 << 31)), recipe["hidden"], recipe["experts"]

    def normal(*shape: int) -> Tensor:
        return 0.3 * torch.randn(*shape, generator=generator)

    def norm(name: str) -> Weights:
        return {f"{name}.gain": 1 + normal(h), f"{name}.shift": normal(h)}

    found = {"embed.token": normal(recipe["vocabulary"], h), "embed.position": normal(recipe["sequence"], h)}
    for layer in range(recipe["layers"]):
        own = norm("norm1") | {name: normal(h, h) for name in ("q", "k", "v", "out")} | norm("norm2")
        if n:
            own |= {"router": normal(h, n), "expert.up": normal(n, h, 2 * h), "expert.down": normal(n, 2 * h, h)}
        else:
            own |= {"up": normal(h, 4 * h), "down": normal(4 * h, h)}
        found |= {f"{layer}.{name}": one for name, one in own.items()}
    return (
        found
        | {f"last.{name}": one for name, one in norm("norm").items()}
        | {"last.head": normal(h, recipe["vocabulary"])}
    )


def fresh_text(recipe: Mapping[str, Any], rng: Random, num: int = NUM_SEQUENCES) -> Tensor:
    """Sequences of tokens [num, S]."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    return torch.randint(recipe["vocabulary"], (num, recipe["sequence"]), generator=generator)


def blocks_of(recipe: Mapping[str, Any], num_stages: int, stage: int) -> list[str]:
    """The blocks of a stage. Layers are split evenly; the first stages get one more if they do not divide."""
    sizes = [len(part) for part in torch.arange(recipe["layers"]).tensor_split(num_stages)]
    first = sum(sizes[:stage])
    own = [str(layer) for layer in range(first, first + sizes[stage])]
    return ["embed"] * (stage == 0) + own + ["last"] * (stage == num_stages - 1)


# ---- units -----------------------------------------------------------------------------------------------------------


def parts_of(weights: Weights, blocks: Sequence[str], place: dict[str, int], recipe: dict[str, Any]) -> Weights:
    """A rank's parts of the weights of some blocks."""
    own = {name: one for name, one in weights.items() if name.split(".")[0] in blocks}
    return {name: own_part(name, one, place, recipe).contiguous() for name, one in own.items()}


def shapes_of(parts: Weights) -> dict[str, dict[str, list[int]]]:
    """{unit: {name: shape}}."""
    found: dict[str, dict[str, list[int]]] = {}
    for name, one in parts.items():
        block, own_name = name.split(".", 1)
        found.setdefault(f"{block} {kind_of(name)}", {})[own_name] = list(one.shape)
    return found


def units_of(parts: Weights, recipe: dict[str, Any], *, rank: int | None = None) -> Weights:
    """{unit: flat tensor}, padded; with ZeRO-3 and a given `rank`, that rank's slice."""
    found = {}
    for key, shapes in shapes_of(parts).items():
        flat = torch.cat([parts[f"{key.split()[0]}.{name}"].flatten() for name in shapes])
        num = len(sharers(recipe, 0, key))
        flat = torch.cat([flat, flat.new_zeros(-len(flat) % num)])
        if rank is not None and recipe["zero"] == 3:
            flat = flat.chunk(num)[sharers(recipe, rank, key).index(rank)].clone()
        found[key] = flat
    return found


def sharers(recipe: Mapping[str, Any], rank: int, key: str) -> list[int]:
    """The ranks that have copies of a rank's unit and different tokens."""
    axes = EDP if key.endswith("expert") else COPIES
    return grid_of(recipe).group_of(rank, *axes)


def adders(recipe: Mapping[str, Any], rank: int, key: str) -> list[int]:
    """The ranks whose gradients add up to that of a rank's unit; for norms this includes tp."""
    axes = ("tp", *COPIES) if key.endswith("norm") else EDP if key.endswith("expert") else COPIES
    return grid_of(recipe).group_of(rank, *axes)


# ---- verdicts --------------------------------------------------------------------------------------------------------


def returned(reply: Reply, rank: int) -> Any:
    """The value that a rank returned, as plain data, or None."""
    value = reply.ranks[rank].get("value")
    return value.get("plain") if isinstance(value, dict) else None


def named_tensors(received: Any, expected: Weights) -> bool:
    """Whether it is a dict with exactly these names."""
    return isinstance(received, dict) and received.keys() == expected.keys()


def wrong_units(rank: int, received: Any, expected: Weights, what: str, why: Mapping[str, str]) -> str | None:
    """Compare units by name with the expected ones; `why` has a question for each kind."""
    if not named_tensors(received, expected):
        return f"Rank {rank} must have {what} of {', '.join(expected)}."
    for key, wanted in expected.items():
        if problem := wrong_value(rank, received[key], wanted, f"{what} of the unit {key!r}", relative=SAME):
            return f"{problem} {why.get(key.split()[1], '')}".strip()
    return None


def axes_of(recipe: Mapping[str, Any], members: Sequence[int]) -> frozenset[str]:
    """The axes along which the members of a group differ."""
    every = places(recipe)
    return frozenset(axis for axis in AXES if len({every[rank][axis] for rank in members}) > 1)


def wrong_bytes(
    recipe: dict[str, Any], task: Task, reply: Reply, why: Mapping[str, str], *, unknown: str = ""
) -> str | None:
    """The complaint if a rank's bytes over some axes differ clearly from the formula; the axis `unknown` is ignored.

    Bytes are read from packets, outside of the ranks.
    """
    for rank in range(task.ranks):
        found: dict[frozenset[str], float] = {}
        for call in calls_of(reply, rank):
            axes = axes_of(recipe, call.members)
            found[axes] = found.get(axes, 0.0) + call.sent_bytes
        expected = task.facts["bytes"][rank].found
        for axes in sorted(expected.keys() | found.keys(), key=sorted):
            sent, due = found.get(axes, 0.0), expected.get(axes, 0.0)
            if abs(sent - due) > 0.05 * due + SLACK and axes != {unknown}:
                over = " · ".join(axis for axis in AXES if axis in axes) or "no axis"
                question = next((text for axis, text in why.items() if axis in axes), "")
                said = (
                    f"Right, but rank {rank} sends {size(sent)} over {over}; the formula says {size(due)}. {question}"
                )
                return said.strip()
    return None


def one_of_each(rng: Random, *cases: Case) -> list[Case]:
    """The cases, each with a fresh width, length, vocabulary and number of layers."""
    return [{**_fresh(rng), **case} for case in cases]


def _fresh(rng: Random) -> Case:
    return {
        "hidden": rng.choice((16, 32)),
        "sequence": rng.choice((16, 32)),
        "vocabulary": rng.choice((24, 32, 40)),
        "layers": rng.choice((2, 3)),
    }
