"""Layers cut into stages that fit in memory, with the slowest stage as fast as possible."""

from __future__ import annotations

from random import Random
from typing import Any

from shardlab.costs.planning.partition import Partition, Piece, partition

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, trouble_in_call
from autograder.weeks.week10_planning._clusters import MASKED

SLACK = 1e-9
NAMES = ("layers", "num_stages", "num_microbatches", "limit_bytes")


def _best(case: Case, limit_bytes: float) -> Partition:
    pieces = [Piece(*map(float, layer)) for layer in case["layers"]]
    return partition(pieces, case["num_stages"], num_microbatches=case["num_microbatches"], limit_bytes=limit_bytes)


def _make(case: Case, rng: Random) -> Task:
    best = _best(case, case["limit_bytes"])
    return Task(call="cut", ranks=1, inputs=[[[case[name] for name in NAMES]]], expected=[best.slowest], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    where = f"{len(case['layers'])} layers, {case['num_stages']} stages, {case['num_microbatches']} microbatches"
    sizes = numbers_of(reply)
    if not isinstance(sizes, list | tuple) or any(type(size) is not int or size < 1 for size in sizes):
        return f"For {where}: return the number of layers in each stage, as whole numbers of 1 or more."
    if len(sizes) != case["num_stages"] or sum(sizes) != len(case["layers"]):
        return f"For {where}: received {len(sizes)} stages with {sum(sizes)} layers."
    begin, slowest = 0, 0.0
    for stage, size in enumerate(sizes):
        own = case["layers"][begin : begin + size]
        begin += size
        held = _held(own, min(case["num_stages"] - stage, case["num_microbatches"]))
        if held > case["limit_bytes"]:
            return (
                f"For {where}: stage {stage} of {list(sizes)} holds {held:g} bytes; there is room for "
                f"{case['limit_bytes']:g}."
            )
        slowest = max(slowest, sum(layer[0] for layer in own))
    if slowest > task.expected[0] * (1 + SLACK):
        return f"For {where}: it fits, but the slowest stage takes {slowest:g}; {task.expected[0]:g} is possible."
    return None


def _held(layers: list[Any], in_flight: int) -> float:
    return sum(layer[1] for layer in layers) + in_flight * sum(layer[2] for layer in layers)


def drawn_case(rng: Random, num_layers: int, num_stages: int, num_microbatches: int, tight: float) -> Case:
    """Random layers; a limit between the least that any cut needs (tight = 1) and that of the fastest cut (0)."""
    layers = [[rng.randint(1, 50), rng.randint(1, 30), rng.randint(0, 9)] for _ in range(num_layers)]
    case = {"layers": layers, "num_stages": num_stages, "num_microbatches": num_microbatches}
    most = max(_best(case, float("inf")).bytes)
    low, high = 0, int(most)
    while low < high:
        middle = (low + high) // 2
        try:
            high = int(max(_best(case, float(middle)).bytes))
        except ValueError:
            low = middle + 1
    return case | {"limit_bytes": int(high + (1 - tight) * (most - high))}


def _draw(rng: Random) -> list[Case]:
    sizes = [(5, 1, 3, 0.0), (6, 6, 8, 1.0), (12, 4, 2, 1.0), (12, 3, 16, 0.7), (40, 8, 32, 0.9), (64, 16, 5, 0.5)]
    drawn = [drawn_case(rng, *size) for size in sizes]
    even = {"layers": [[4, 6, 1]] * 24, "num_stages": 4, "num_microbatches": 8, "limit_bytes": 10**9}
    return [*drawn, even]


CHECK = Check(
    exercise="week10.cut",
    points=3,
    names=("cut",),
    public=(
        {"layers": [[2, 4, 2]] * 6 + [[5, 9, 0]], "num_stages": 3, "num_microbatches": 8, "limit_bytes": 100},
        {"layers": [[2, 4, 2]] * 6 + [[5, 9, 0]], "num_stages": 3, "num_microbatches": 8, "limit_bytes": 24},
        {"layers": [[1, 1, 0]] * 60, "num_stages": 12, "num_microbatches": 24, "limit_bytes": 1000},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    optional=True,
    masked=MASKED,
    hints=(
        "Let best[s][k] be the slowest stage in the best cut of the first k layers into s stages. What is best[1][k]?",
        "best[s][k] is the minimum over j of max(best[s-1][j], seconds of layers j to k), where these layers fit.",
        "Save the best j, and trace back from the last stage. Stage i has min(num_stages - i, m) in flight.",
    ),
)
