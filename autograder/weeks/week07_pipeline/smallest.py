"""The number of microbatches that keeps the bubble below a limit, in whole percent so that equality can occur."""

from __future__ import annotations

from itertools import product
from random import Random

from shardlab.costs.clock.step import bubble_share

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, numbers_of, shown, trouble_in_call
from autograder.weeks.week07_pipeline.bubble import FORMULAS


def smallest(num_ranks: int, percent: int) -> int:
    """The smallest M with 100 (P-1) < percent (M+P-1), by trial."""
    num_microbatches = 1
    while not 100 * (num_ranks - 1) < percent * (num_microbatches + num_ranks - 1):
        num_microbatches += 1
    return num_microbatches


def _judge_smallest(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    if type(received) is not int:
        return f"For ({shown(case)}) return the number of microbatches as an int."
    if 1 <= received < expected:
        idle = bubble_share(case["num_ranks"], received)
        return (
            f"For ({shown(case)}) M = {received} leaves a bubble of {idle:.4%}, which is not below {case['percent']}%."
        )
    return f"For ({shown(case)}) {received} is not the smallest M." if received != expected else None


def _draw_smallest(rng: Random) -> list[Case]:
    """Limits that a bubble can equal exactly (floats go wrong at 7 and 13) and others, for few and many ranks."""
    ranks = [1, 2, 3, 8, 14, 15, 27, rng.randint(4, 7), rng.randint(16, 32)]
    sizes = product(ranks, (3, 5, 7, 9, 10, 11, 13, 20, 25, 30, 50))
    return [{"num_ranks": ranks, "percent": percent} for ranks, percent in sizes]


CHECK = Check(
    exercise="week07.smallest",
    points=1,
    names=("smallest_num_microbatches",),
    public=tuple(
        {"num_ranks": ranks, "percent": percent} for ranks, percent in ((4, 30), (8, 10), (8, 7), (14, 13), (1, 5))
    ),
    draw=_draw_smallest,
    make=formula_task(
        "smallest_num_microbatches", ("num_ranks", "percent"), lambda case: smallest(case["num_ranks"], case["percent"])
    ),
    judge=_judge_smallest,
    program="without_ranks",
    masked=FORMULAS,
    hints=(
        "Solve (P-1)/(M+P-1) < b for M; the < is strict. Use integers: 0.3 is not exact as a float.",
        "M > (P-1)(1/b - 1): take the next integer above it, even if the right side is an integer itself.",
        "In integers: M + P - 1 > 100 (P-1) / percent, so M = 100 (P-1) // percent + 1 - (P-1), at least 1.",
    ),
)
