"""The warm-up: compute how often a large run stops from how often one GPU fails."""

from __future__ import annotations

from itertools import product
from random import Random

from shardlab.costs.failures import expected_failures, mean_seconds_between, quiet_share

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.weeks.week16_capstone_design._design import MASKED

NAMES = ("num_gpus", "hours_of_one", "days")


def interruptions(case: Case) -> tuple[float, float, float]:
    """(hours between two failures of the run, expected failures in `days`, probability of a day without one)."""
    between = mean_seconds_between(case["num_gpus"], 3600 * case["hours_of_one"])
    return between / 3600, expected_failures(86400 * case["days"], between), quiet_share(86400, between)


def _draw(rng: Random) -> list[Case]:
    """One GPU, a server, a thousand GPUs, and enough for more than one failure per hour."""
    sizes = [1, 8, rng.randint(500, 2000), rng.randint(10_000, 50_000)]
    return [
        dict(zip(NAMES, (gpus, hours * rng.randint(5, 9), rng.randint(2, 90)), strict=True))
        for gpus, hours in product(sizes, (1000, 10_000))
    ]


CHECK = Check(
    exercise="week16.failures",
    points=1,
    names=("interruptions",),
    public=tuple(dict(zip(NAMES, case, strict=True)) for case in ((16_384, 50_000, 54), (8, 50_000, 30))),
    draw=_draw,
    make=formula_task("interruptions", NAMES, interruptions),
    judge=judge_numbers(
        ("the hours between two failures", "the expected failures", "the probability of a day without a failure")
    ),
    program="without_ranks",
    masked=MASKED,
    hints=(
        "Each failure of one GPU stops the run. With N GPUs, failures come N times as often.",
        "The hours between failures are hours_of_one / num_gpus; divide T hours by that for the expected number.",
        "Failures are memoryless: there is none for t hours with probability exp(-t / hours between failures).",
    ),
)
