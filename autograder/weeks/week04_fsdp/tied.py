"""A weight that several layers use: each use has a gradient, and the weight's gradient is their sum."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.groups import working
from autograder.checks.shards import MASKED
from autograder.checks.training import failed
from autograder.weeks.week04_fsdp.step import chain_task, wrong_output


def _make(case: Case, rng: Random) -> Task:
    return chain_task(case, rng, "tied_step", case["uses"], tells_uses=True)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := failed(reply):
        return problem
    return next((problem for rank in working(task) if (problem := wrong_output(task, reply, rank))), None)


def _draw(rng: Random) -> list[Case]:
    width = 2 * rng.randint(1, 4) + 1
    return [
        {"ranks": 2, "width": width, "uses": [0, 1, 2, 0]},
        {"ranks": 3, "width": 4, "uses": [0, 1, 2, 1, 0, 3, 1], "rows": 5},
        {"ranks": 4, "width": 5, "uses": [0, 0], "subgroup": [1, 2, 3]},
        {"ranks": 2, "width": width, "uses": [0, 1]},
        {"ranks": 3, "width": width, "inner": width + rng.randint(1, 3), "uses": [0, 1, 2, 1]},
        {"ranks": 2, "width": width, "inner": width + 2, "uses": [0, 1, 0], "subgroup": [1]},
    ]


CHECK = Check(
    exercise="week04.tied",
    points=2,
    names=("tied_step",),
    public=(
        {"ranks": 2, "width": 3, "uses": [0, 1]},
        {"ranks": 4, "width": 3, "uses": [0, 1, 0, 0], "subgroup": [1, 3]},
        {"ranks": 2, "width": 3, "inner": 4, "uses": [0, 1, 0]},
        {"ranks": 1, "width": 3, "uses": [0, 0]},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    trains=True,
    timeout=20.0,
    hints=(
        "Compare the slices of both weights with one process: which is correct, and how often is each weight used?",
        "The backward runs once for each use. What happens to the first gradient when the second arrives?",
        "Return the mean slice as the gradient of `shard`, and autograd adds them; or add to `.grad` if it exists.",
    ),
)
