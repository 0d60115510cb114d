"""Bytes left on a GPU after model states and activations; negative if they do not fit."""

from __future__ import annotations

from itertools import product
from random import Random

from shardlab.costs.memory.states import zero_state_bytes

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import formula_task, numbers_of, shown, trouble_in_call
from autograder.weeks.week10_planning._clusters import MASKED

NAMES = ("num_parameters", "tp", "pp", "dp", "activation_bytes", "gpu_bytes")


def left(case: Case) -> float:
    states = zero_state_bytes(case["num_parameters"] / (case["tp"] * case["pp"]), case["dp"], 1, gradient_bytes=4)
    return case["gpu_bytes"] - states.total - case["activation_bytes"]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    if type(received) in (int, float) and abs(received - expected) <= 1e-6 * case["gpu_bytes"]:
        return None
    if close(received, -expected):
        return f"For ({shown(case)}), the sign is wrong: the number of bytes left is positive if the rank fits."
    return f"For ({shown(case)}), {received!r} is not the number of bytes left."


def _draw(rng: Random) -> list[Case]:
    """Each kind of layout, with a model that fits and with one that does not, on every GPU."""
    sizes = [
        (1, 1, 1),
        (8, 1, rng.randint(2, 9)),
        (rng.randint(2, 8), rng.randint(2, 16), 1),
        (8, 16, rng.randint(3, 64)),
    ]
    cases = []
    for tp, pp, dp in sizes:
        for fill, gib in product((0.3, 3.0), (32, 80, 141)):
            num_parameters = int(fill * gib * 2**30 / 18) * tp * pp  # 18 bytes per parameter without ZeRO
            activations = rng.randint(1, 10) * 10**9
            cases.append(dict(zip(NAMES, (num_parameters, tp, pp, dp, activations, gib * 2**30), strict=True)))
    return cases


CHECK = Check(
    exercise="week10.fits",
    points=1,
    names=("bytes_left",),
    public=tuple(
        dict(zip(NAMES, (70_000_000_000, 8, pp, dp, activations, 80 * 2**30), strict=True))
        for pp, dp, activations in ((1, 8, 20_000_000_000), (4, 8, 20_000_000_000), (1, 2, 5_000_000_000))
    ),
    draw=_draw,
    make=formula_task("bytes_left", NAMES, left),
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    hints=(
        "How many parameters does a rank have? tp and pp both split the model; dp does not.",
        "A parameter costs 2 bytes as a weight, 4 as a gradient and 12 in the optimizer; ZeRO-1 divides the 12 by dp.",
        "gpu_bytes - num_parameters / (tp * pp) * (6 + 12 / dp) - activation_bytes.",
    ),
)
