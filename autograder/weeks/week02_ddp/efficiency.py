"""The share of a step spent computing when part of the communication hides behind the backward."""

from __future__ import annotations

from random import Random

from shardlab.costs import overlap

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import formula_task, numbers_of, shown, trouble_in_call

NAMES = ("compute_seconds", "communication_seconds", "window_seconds")
FORMULAS = ("shardlab.costs.overlap",)


def expected_efficiency(case: Case) -> float:
    """compute / (compute + communication that does not fit into the window)."""
    compute, communication, window = (case[name] for name in NAMES)
    return overlap.efficiency(compute, max(0.0, communication - window))


def _judge_efficiency(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = numbers_of(reply)
    if not close(received, task.expected[0]):
        return f"For ({shown(case)}), {received!r} is not compute / (compute + exposed communication)."
    return None


def _draw_efficiency(rng: Random) -> list[Case]:
    compute, communication = rng.uniform(0.005, 0.1), rng.uniform(0.005, 0.1)
    windows = (0.0, communication / 3, communication, 2 * communication)
    return [dict(zip(NAMES, (compute, communication, window), strict=True)) for window in windows]


CHECK = Check(
    exercise="week02.efficiency",
    points=1,
    names=("efficiency",),
    public=tuple(dict(zip(NAMES, (0.010, 0.004, window), strict=True)) for window in (0.0, 0.003, 0.005)),
    draw=_draw_efficiency,
    make=formula_task("efficiency", NAMES, expected_efficiency),
    judge=_judge_efficiency,
    program="without_ranks",
    masked=FORMULAS,
    hints=(
        "Exposed communication is what the rank waits for after it has finished computing.",
        "Exposed communication is communication minus window, but never less than zero.",
        "compute_seconds / (compute_seconds + max(0, communication_seconds - window_seconds))",
    ),
)
