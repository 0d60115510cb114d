"""The most numbers that are gathered at once, for units of any size and any prefetch."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, numbers_of, shown, trouble_in_call
from autograder.weeks.week04_fsdp.plan import window_plan

NAMES = ("unit_sizes", "prefetch")


def most(case: Case) -> int:
    """Replay the plan of section 4 and track what is gathered."""
    held, peak = set(), 0
    for event in window_plan(len(case["unit_sizes"]), case["prefetch"]):
        kind, unit = event.split()
        if kind == "gather":
            held.add(int(unit))
        if kind == "free":
            held.remove(int(unit))
        peak = max(peak, sum(case["unit_sizes"][one] for one in held))
    return peak


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    if isinstance(received, bool) or not isinstance(received, int | float) or received != expected:
        return f"For ({shown(case)}) at most {expected} numbers are gathered at once, not {received!r}."
    return None


def _draw(rng: Random) -> list[Case]:
    sizes = [[rng.randint(1, 99) for _ in range(rng.randint(5, 9))] for _ in range(4)]
    cases = [{"unit_sizes": one, "prefetch": prefetch} for prefetch, one in enumerate(sizes)]
    last = [1, 2, 3, 90]  # the turn of the passes holds the last unit once, not twice
    return [*cases, {"unit_sizes": last, "prefetch": 1}, {"unit_sizes": [7, 3], "prefetch": rng.randint(4, 9)}]


CHECK = Check(
    exercise="week04.most-gathered",
    points=1,
    optional=True,
    names=("most_gathered",),
    public=(
        {"unit_sizes": [100], "prefetch": 0},
        {"unit_sizes": [20] * 5, "prefetch": 0},
        {"unit_sizes": [20] * 5, "prefetch": 1},
        {"unit_sizes": [3, 1, 4], "prefetch": 1},
    ),
    draw=_draw,
    make=formula_task("most_gathered", NAMES, most),
    judge=_judge,
    program="without_ranks",
    masked=("shardlab.data_parallel",),
    hints=(
        "Write the 2L passes as one list of units, as in section 4, and slide a window of prefetch + 1 passes over it.",
        "In each window count every unit once: the last unit has two passes in a row.",
        "max(sum(unit_sizes[unit] for unit in set(passes[i : i + prefetch + 1])) for i in range(len(passes)))",
    ),
)
