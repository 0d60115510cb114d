"""The blocks, weights and parts of weights of every rank of a mesh, as units, compared exactly."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from shardlab.own.step_bytes import COPIES, EDP

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of
from autograder.weeks.week15_capstone_build import _trainer

SCHEDULES = {"1f1b": 1, "interleaved": 2, "v": 2}  # stages per rank
WHY = {
    "expert": "Only ep splits the experts, in dimension 0.",
    "split": "tp splits the columns of q, k, v, up and head, and the rows of out and down.",
    "norm": "Norms, embeddings and routers stay whole on every rank of tp.",
}


def schedule_of(case: Case, pp: int) -> list[list[str]]:
    """One microbatch in any order; only the rank of each stage matters here."""
    if case.get("stages", "1f1b") == "v":
        return [[f"{rank}F0", f"({2 * pp - 1 - rank}F0;{rank}B0)OVERLAP_F_B"] for rank in range(pp)]
    each = SCHEDULES[case.get("stages", "1f1b")]
    return [[f"{rank + pp * chunk}F0" for chunk in range(each)] for rank in range(pp)]


def _make(case: Case, rng: Random) -> Task:
    recipe = _trainer.recipe_of(case)
    weights, schedule = _trainer.fresh_weights(recipe, rng), schedule_of(case, recipe["pp"])
    num_stages = recipe["pp"] * SCHEDULES[case.get("stages", "1f1b")]
    sizes = {axis: recipe[axis] for axis in _trainer.AXES}
    calls, expected = [], []
    grid = _trainer.grid_of(recipe)
    for rank, place in enumerate(_trainer.places(recipe)):
        sharers = {
            name: [(group := grid.group_of(rank, *axes)).index(rank), len(group)]
            for name, axes in (("copies", COPIES), ("edp", EDP))
        }
        calls.append([weights, schedule, recipe["layers"], place, sizes, sharers, recipe["zero"]])
        stages = sorted({int(one) for slot in schedule[place["pp"]] for one in _stages_in(slot)})
        blocks = [block for stage in stages for block in _trainer.blocks_of(recipe, num_stages, stage)]
        parts = _trainer.parts_of(weights, blocks, place, recipe)
        expected.append((blocks, _trainer.units_of(parts, recipe, rank=rank), _trainer.shapes_of(parts)))
    return Task("units_of_ranks", 1, [[[calls]]], expected, [])


def _stages_in(slot: str) -> list[str]:
    return [part.split(letter)[0] for part in slot.strip("()").split(";") for letter in "FB" if letter in part[:3]]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    every = value_of(reply)
    if not isinstance(every, list | tuple) or len(every) != len(task.expected):
        return "Return blocks, units and shapes for every rank."
    for rank, (expected, received) in enumerate(zip(task.expected, every, strict=True)):
        if not isinstance(received, list | tuple) or len(received) != 3:
            return f"For rank {rank} return blocks, units and shapes."
        if problem := _wrong_part(rank, expected, received):
            return problem
    return None


def _wrong_part(rank: int, expected: tuple[Any, Any, Any], received: Sequence[Any]) -> str | None:
    blocks, units, shapes = expected
    if not isinstance(received[0], list | tuple) or list(received[0]) != blocks:
        return f"Rank {rank} has the blocks {', '.join(blocks)}, not {received[0]}."
    if problem := _trainer.wrong_units(rank, received[1], units, "numbers", WHY):
        return problem
    if received[2] != shapes or any(list(received[2][key]) != list(own) for key, own in shapes.items()):
        return f"On rank {rank} a unit's shapes must be those of the rank's parts, in the order of the weights."
    return None


def _draw(rng: Random) -> list[Case]:
    return [
        {},
        {"tp": 2, "dp": 2, "layers": 3},
        {"pp": 3, "layers": rng.choice((4, 5)), "tp": 2},
        {"ep": 2, "dp": 2, "experts": 4, "zero": 1},
        {"pp": 2, "stages": "interleaved", "layers": 6},
        {"pp": 2, "stages": "v", "layers": rng.choice((4, 5))},
        {"dp": 3, "cp": 2, "zero": 3, "hidden": 20, "layers": 1},
        {"tp": 2, "ep": 2, "cp": 2, "experts": 4},
    ]


CHECK = Check(
    exercise="week15.own-weights",
    points=2,
    names=("own_stages", "own_weights", "new_units", "units_of_ranks"),
    public=(
        {},
        {"tp": 2, "pp": 2},
        {"ep": 2, "dp": 2, "experts": 4},
        {"dp": 2, "zero": 3},
        {"pp": 2, "stages": "v", "layers": 4},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=_trainer.MASKED,
    timeout=20.0,
    hints=(
        "Answer three questions in order: which stages are in this rank's list of slots, which blocks do they have, "
        "and which part of each weight does this rank have?",
        "split_stages([1] * layers, num_stages) gives layers per stage. Experts are split over ep in dimension 0, the "
        "names in model.SPLIT_BY_TP over tp; a unit is flatten_and_pad of the weights of one block and one ____.",
        "new_units: shapes[f'{block} {kind}'][name] = weight.shape for every weight; then rank, size = sharers(key), "
        "flat = flatten_and_pad(weights of the unit, size), and with zero == 3 flat.chunk(size)[rank].",
    ),
)
