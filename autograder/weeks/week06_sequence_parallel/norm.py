"""Gradients after the backward: which are split, partial or whole, and what each group must still do with them."""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from shardlab.costs.traffic import ring_all_reduce_bytes
from torch import Tensor

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    calls_of,
    size,
    touched_input,
    trouble,
    whole_numbers,
    wrong_value,
)
from autograder.checks.groups import DTYPES
from autograder.checks.meshes import grid_of, groups_by_rank, task_inputs
from autograder.weeks.week06_sequence_parallel._shared import MASKED, times_as_long

SPLIT, PARTIAL, WHOLE = "split", "sequence", "whole"
KINDS = {
    SPLIT: "a rank's own part of a matrix",
    PARTIAL: "a replicated weight that has seen only this rank's positions",
    WHOLE: "a replicated weight that has seen every position on every rank",
}
GROUPS = {"tp_group": ("tp",), "dp_group": ("dp",)}
ORDER = (PARTIAL, SPLIT, SPLIT, PARTIAL, WHOLE)
COUNTING_BYTES = 64


def _make(case: Case, rng: Random) -> Task:
    grid, dtype = grid_of(case), DTYPES[case.get("dtype", "float32")]
    kinds = case.get("kinds", ORDER)
    dp = grid.sizes["dp"]
    shapes = [(case["numbers"], 2) if kind == SPLIT else (case["numbers"] + at,) for at, kind in enumerate(kinds)]

    def drawn(shape: tuple[int, ...]) -> Tensor:
        return (whole_numbers(rng, torch.Size(shape).numel(), dtype) * dp).reshape(shape)

    by_place = {}
    for replica in range(dp):
        shared = [drawn(shape) for shape in shapes]
        for place in range(grid.sizes["tp"]):
            own = [
                one if kind == WHOLE else drawn(shape) for one, kind, shape in zip(shared, kinds, shapes, strict=True)
            ]
            by_place[place, replica] = own
    args, expected = [], []
    for rank in range(grid.world):
        place, replica = (grid.coordinates(rank)[axis] for axis in ("tp", "dp"))
        args.append([[one.clone() for one in by_place[place, replica]], list(kinds)])
        expected.append([_finished(by_place, number, kind, place, grid.sizes) for number, kind in enumerate(kinds)])
    made, mine = groups_by_rank(grid, GROUPS)
    return Task("finish_gradients", grid.world, task_inputs(args, mine), expected, made, keeps_inputs=True)


def _finished(by_place: dict, number: int, kind: str, place: int, sizes: dict[str, int]) -> Tensor:
    """The mean over replicas. A weight that has seen a part of the sequence is first summed over the parts."""
    places = range(sizes["tp"]) if kind == PARTIAL else [place]
    summed = [by_place[at, replica][number] for at in places for replica in range(sizes["dp"])]
    return torch.stack(summed).sum(0) / sizes["dp"]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    kinds = case.get("kinds", ORDER)
    for rank, expected in enumerate(task.expected):
        reported = reply.ranks[rank]
        value = reported.get("value")
        received = value.get("plain") if isinstance(value, dict) else None
        if not isinstance(received, list | tuple) or len(received) != len(expected):
            return f"Rank {rank} must return {len(expected)} gradients, in the order of the inputs."
        for number, (one, right, kind) in enumerate(zip(received, expected, kinds, strict=True)):
            if problem := wrong_value(rank, one, right, f"gradient {number}, of {KINDS[kind]},"):
                return f"{problem}{_why(one, right)}"
        problem = touched_input(rank, reported, task) or _too_many_bytes(case, task, reply, rank)
        if problem:
            return problem
    return None


def _why(received: Any, expected: Tensor) -> str:
    ratio = times_as_long(received, expected)
    if ratio and abs(ratio - 1) > 0.01:
        return f" It is {ratio:.4g} times what it should be."
    return " Over which group must it still be summed, and over which only averaged?"


def _too_many_bytes(case: Case, task: Task, reply: Reply, rank: int) -> str | None:
    """On tp only partial gradients may be sent; on dp all of them, once."""
    grid, gradients, kinds = grid_of(case), task.inputs[rank]["args"][0], case.get("kinds", ORDER)
    partial = sum(one.nbytes for one, kind in zip(gradients, kinds, strict=True) if kind == PARTIAL)
    most = {
        "tp": ring_all_reduce_bytes(grid.sizes["tp"], partial),
        "dp": ring_all_reduce_bytes(grid.sizes["dp"], sum(one.nbytes for one in gradients)),
    }
    sent = dict.fromkeys(most, 0.0)
    for call in calls_of(reply, rank):
        axis = next((name for name in most if set(call.members) <= set(grid.group_of(rank, name))), None)
        if axis is None:
            return (
                f"Rank {rank} calls {call.kind} with ranks {sorted(call.members)}, which are not one of its two groups."
            )
        sent[axis] += call.sent_bytes
    for axis, enough in most.items():
        if sent[axis] > enough + COUNTING_BYTES:
            return f"Right, but rank {rank} sends {size(sent[axis])} on {axis} where {size(enough)} are enough."
    return None


def _draw(rng: Random) -> list[Case]:
    def case(order: str, *sizes: int, **more: object) -> Case:
        return {"sizes": dict(zip(order.split("-"), sizes, strict=True)), "numbers": rng.randint(50, 90), **more}

    return [
        case("tp-dp", 3, 2),
        case("dp-tp", 2, 2, dtype="bfloat16"),
        case("dp-tp", 1, 3, kinds=(WHOLE, PARTIAL, SPLIT)),
        case("tp-dp", 1, 3),
        case("dp-tp", 3, 2, kinds=(SPLIT, WHOLE)),
    ]


CHECK = Check(
    exercise="week06.norm",
    points=2,
    names=("finish_gradients",),
    public=(
        {"sizes": {"tp": 2, "dp": 1}, "numbers": 4},
        {"sizes": {"dp": 2, "tp": 3}, "numbers": 50},
        {"sizes": {"tp": 2, "dp": 2}, "numbers": 50, "dtype": "bfloat16", "kinds": (WHOLE, PARTIAL)},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=(*MASKED, "shardlab.data_parallel"),
    timeout=30.0,
    hints=(
        "For each of the three kinds ask: does another tensor-parallel rank have a part of this gradient?",
        "Sum over tp only where a weight has seen a part of the positions. Always average over replicas.",
        "for gradient, kind in zip(gradients, kinds): total = gradient.clone(); if kind == 'sequence': "
        "all_reduce(total, group=tp_group); then all_reduce over dp_group and ____.",
    ),
)
