"""Interview: how often to save. Young's interval, Daly's, and the goodput with failures and saves."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

NAMES = (
    "the mean time between failures of the whole job, in seconds",
    "Young's interval, in seconds",
    "Daly's interval, in seconds",
    "the goodput with Young's interval",
    "the goodput when a checkpoint is saved every hour",
)
SIZES = ("gpus", "years_between_failures", "save_seconds", "restart_seconds")
LLAMA_3 = {"gpus": 16384, "years_between_failures": 5.78, "save_seconds": 30, "restart_seconds": 600}
SMALL = {"gpus": 8, "years_between_failures": 5.78, "save_seconds": 30, "restart_seconds": 600}
YEAR = 365 * 24 * 3600


def expected(case: Case) -> list[float]:
    """The five numbers of NAMES."""
    from shardlab.costs import failures

    between = case["years_between_failures"] * YEAR / case["gpus"]
    save, restart = case["save_seconds"], case["restart_seconds"]
    young = failures.best_interval(save, between)
    shares = [failures.first_order_goodput(each, save, between, restart) for each in (young, 3600)]
    return [between, young, failures.best_interval_daly(save, between), *shares]


def _draw(rng: Random) -> list[Case]:
    """Few GPUs and many, saves of seconds and of minutes."""
    return [
        {
            "gpus": gpus,
            "years_between_failures": round(rng.uniform(3, 9), 2),
            "save_seconds": rng.randint(*save),
            "restart_seconds": rng.randint(100, 900),
        }
        for gpus, save in ((512, (20, 90)), (2048, (5, 20)), (8192, (60, 180)), (4096, (1, 3)))
    ]


CHECK = Check(
    exercise="week15.interval",
    points=1,
    optional=True,
    names=("checkpoint_numbers",),
    public=(LLAMA_3, SMALL),
    draw=_draw,
    make=formula_task("checkpoint_numbers", SIZES, expected),
    judge=judge_numbers(NAMES),
    program="without_ranks",
    masked=("shardlab.costs",),
    hints=(
        "With N GPUs something fails N times as often as with one.",
        "A job pays one save per interval T of work, and per failure, one in every M seconds, a restart and half a "
        "lost interval. T = sqrt(2 · save · M) minimizes the sum.",
        "goodput = 1 / (1 + save/T) · (1 - (restart + (T + save)/2) / M). Daly: sqrt(2·s·M) · (1 + sqrt(s/(2M))/3 + "
        "(s/(2M))/9) - s.",
    ),
)
