"""Dynamic loss scaling in ZeRO-1: an infinity in one rank's slice makes all ranks skip the step.

The loss is a dot product, so a weight's gradient is its input. Inputs are whole numbers times 2^-26: too small for
fp16 unless the loss is scaled. Sums over 1, 2 or 4 ranks are exact.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from shardlab.costs import traffic
from shardlab.model import adam
from torch import Tensor

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    calls_of,
    carried_too_little,
    size,
    trouble,
    whole_numbers,
    wrong_value,
)
from autograder.checks.groups import group_task, members_of, working
from autograder.checks.shards import MASKED, shapes_of, slices
from autograder.weeks.week03_zero.zero1 import wrong_state

LR = 0.02
TINY = 2.0**-26  # fp16 rounds this to 0
AGREEMENT_BYTES = 64  # per step: room for one number from each rank
MOST = 2.0**24  # as in Apex
KEYS = ("scale", "good")
LARGEST = torch.finfo(torch.float16).max


def _make(case: Case, rng: Random) -> Task:
    members, shapes = members_of(case), shapes_of(case)
    weights = [whole_numbers(rng, torch.Size(shape).numel(), torch.float16).reshape(shape) / 16 for shape in shapes]
    states = [adam.new_state(part) for part in slices(weights, len(members))]
    scaler = _scaler(case)
    batches = list(_batches(case, len(members), rng))
    args = {
        rank: [
            copy.deepcopy(weights),
            [_shaped(batch[place], shapes) for batch in batches],
            copy.deepcopy(states[place]),
            {**scaler},
        ]
        for place, rank in enumerate(members)
    }
    history = [_step(states, scaler, batch) for batch in batches]
    flat = torch.cat([state["master"] for state in states]).half()
    expected = {rank: (_shaped(flat, shapes), states[place]) for place, rank in enumerate(members)}
    one_way = traffic.ring_reduce_scatter_bytes(len(members), flat.nbytes)
    sent_bytes = one_way * (len(history) + sum(stepped for stepped, _ in history))
    facts = {"history": history, "scaler": scaler, "sent_bytes": sent_bytes}
    return group_task(case, "train", {rank: [*mine, LR] for rank, mine in args.items()}, expected, **facts)


def _scaler(case: Case) -> dict[str, Any]:
    return {"scale": 2.0 ** case["power"], "good": case["good"], "interval": case["interval"], "most": MOST}


def _batches(case: Case, num_ranks: int, rng: Random) -> Iterator[Tensor]:
    """One batch per step, [rank, number]: tiny whole numbers, and in some steps one number that overflows."""
    scaler = _scaler(case)
    for kind in case["steps"]:
        batch = torch.stack([TINY * whole_numbers(rng, case["numbers"]) for _ in range(num_ranks)])
        place, large = rng.randrange(case["numbers"]), 4 * LARGEST / scaler["scale"]
        if kind == "one":  # one rank's gradient overflows
            batch[rng.randrange(num_ranks), place] = large
        if kind == "sum":  # each rank's gradient is finite, but their sum is not
            batch[:, place] = 49152 / scaler["scale"]
        if kind == "nan":  # infinity minus infinity
            batch[0, place], batch[-1, place] = large, -large
        yield batch
        _adjust(scaler, kind == "good")


def _step(states: list[dict[str, Any]], scaler: dict[str, Any], batch: Tensor) -> tuple[bool, float]:
    """One step on all ranks' states: whether it was taken, and the scale after it. Changes both arguments."""
    scaled = (batch * scaler["scale"]).half()
    mean = (scaled.float().sum(0).half() / len(states)).float()
    stepped = bool(mean.isfinite().all())
    if stepped:
        for state, part in zip(states, slices([mean / scaler["scale"]], len(states)), strict=True):
            adam.update(state, part, lr=LR)
    _adjust(scaler, stepped)
    return stepped, scaler["scale"]


def _adjust(scaler: dict[str, Any], stepped: bool) -> None:
    scaler["good"] = scaler["good"] + 1 if stepped else 0
    if not stepped:
        scaler["scale"] /= 2
    elif scaler["good"] == scaler["interval"]:
        scaler["scale"], scaler["good"] = min(2 * scaler["scale"], scaler["most"]), 0


def _shaped(flat: Tensor, shapes: list[list[int]]) -> list[Tensor]:
    sizes = [torch.Size(shape).numel() for shape in shapes]
    return [part.clone().view(shape) for part, shape in zip(flat[: sum(sizes)].split(sizes), shapes, strict=True)]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank in working(task):
        reported = reply.ranks[rank]
        args = reported.get("args")
        if not isinstance(args, list | tuple) or len(args) != 5 or not isinstance(args[3], dict):
            return f"Rank {rank} does not return what it was given. Update the weights and both dicts in place."
        problem = _wrong_history(rank, reported.get("value", {}).get("plain"), task) or _wrong_scaler(rank, args, task)
        if problem := problem or _wrong_numbers(rank, args, task):
            return problem
    return _wrong_bytes(task, reply, len(case["steps"]))


def _wrong_history(rank: int, received: Any, task: Task) -> str | None:
    history = task.facts["history"]
    if not isinstance(received, list | tuple) or len(received) != len(history):
        return f"Rank {rank} does not return a result for each step."
    for number, (mine, expected) in enumerate(zip(received, history, strict=True), start=1):
        stepped, scale = mine if isinstance(mine, list | tuple) and len(mine) == 2 else (None, None)
        if isinstance(stepped, Tensor) and stepped.numel() == 1:
            stepped = stepped.item()
        if not isinstance(stepped, bool | int):
            return f"In step {number} rank {rank} returns {stepped!r}: return True for a step, False if it is skipped."
        if bool(stepped) != expected[0]:
            what, should = ("takes", "skip it") if stepped else ("skips", "take it")
            why = "the mean gradient has an infinity or NaN" if stepped else "the mean gradient is finite on all ranks"
            return f"Rank {rank} {what} step {number}, but all ranks must {should}: {why}."
        if _number(scale) != expected[1]:
            return f"After step {number} rank {rank}'s scale is {_number(scale)!r}; it should be {expected[1]:g}."
    return None


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def _wrong_scaler(rank: int, args: Any, task: Task) -> str | None:
    for key in KEYS:
        if _number(args[3].get(key)) != task.facts["scaler"][key]:
            expected = f"{task.facts['scaler'][key]:g}"
            return f"At the end rank {rank}'s scaler[{key!r}] is {_number(args[3].get(key))!r} instead of {expected}."
    return None


def _wrong_numbers(rank: int, args: Any, task: Task) -> str | None:
    weights, state = task.expected[rank]
    if problem := wrong_state(rank, args[2], state):
        return problem
    if not isinstance(args[0], list | tuple) or len(args[0]) != len(weights):
        return f"Rank {rank} no longer has the same list of weights."
    for place, (received, expected) in enumerate(zip(args[0], weights, strict=True)):
        if problem := wrong_value(rank, received, expected, f"parameter {place}", relative=2.0**-10):
            return problem
    return None


def _wrong_bytes(task: Task, reply: Reply, num_steps: int) -> str | None:
    """Each step reduces gradients and agrees; only a step that is taken gathers weights."""
    expected = task.facts["sent_bytes"]
    for rank in working(task):
        mine = sum(call.sent_bytes for call in calls_of(reply, rank))
        if mine > expected + AGREEMENT_BYTES * num_steps:
            return (
                f"Rank {rank} sends {size(mine)}, but {size(expected)} and one number per step are enough: gradients "
                "once in each step, weights only in a step that is taken."
            )
    return carried_too_little(reply, int(0.98 * expected * len(working(task))))


def _draw(rng: Random) -> list[Case]:
    odd = {"ranks": 4, "numbers": 4 * rng.randint(5, 60) + 1, "power": 16, "good": 0, "interval": 2}
    some = {"ranks": 4, "numbers": 2 * rng.randint(10, 60) + 1, "power": 14, "good": 1, "interval": 3}
    return [
        odd | {"steps": ["good", "one", "good", "good", "good"]},
        odd | {"steps": ["good", "good", "good"], "power": 24},  # Apex's ceiling
        odd | {"steps": ["one", "one"], "power": rng.randint(8, 15)},
        some | {"steps": ["good", "sum", "good"], "subgroup": [1, 3]},
        some | {"steps": ["good", "good", "nan"], "ranks": 2},
        some | {"steps": ["good", "one", "good"], "ranks": 2, "subgroup": [1]},
        some | {"steps": ["one", "good"], "ranks": 4, "numbers": 3},  # a slice of padding
    ]


CHECK = Check(
    exercise="week03.loss-scale",
    points=3,
    optional=True,
    names=("train",),
    public=(
        {"ranks": 2, "numbers": 5, "power": 16, "good": 0, "interval": 3, "steps": ["good", "one"]},
        {"ranks": 4, "numbers": 41, "power": 16, "good": 2, "interval": 3, "steps": ["good", "good", "sum"]},
        {"ranks": 2, "numbers": 9, "power": 24, "good": 1, "interval": 2, "steps": ["good"]},
        {"ranks": 1, "numbers": 9, "power": 16, "good": 1, "interval": 2, "steps": ["good", "one", "good"]},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=12.0,
    hints=(
        "After the reduce-scatter only one rank sees the infinity. What must every other rank hear before it updates?",
        "Turn 'my slice has an infinity or NaN' into a tensor with one number, and all-reduce it with MAX.",
        "Skip: halve the scale, set good to 0. Otherwise zero1_step with the mean as float32, divided by the scale; "
        "good + 1; at `interval`, double the scale up to `most` and set good to 0. Free the gradients in both cases.",
    ),
)
