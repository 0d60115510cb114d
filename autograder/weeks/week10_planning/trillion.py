"""The fraction of the GPUs' peak that a step uses, at 6P FLOPs per token, and the days of a whole training run."""

from __future__ import annotations

from itertools import product
from random import Random

from shardlab.costs.models.flops import utilisation

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.weeks.week10_planning._clusters import MASKED

NAMES = ("num_parameters", "tokens_per_step", "step_seconds", "num_gpus", "peak_flops", "total_tokens")


def _used_and_days(case: Case) -> tuple[float, float]:
    used = utilisation(
        6 * case["num_parameters"], case["tokens_per_step"], case["step_seconds"], case["num_gpus"], case["peak_flops"]
    )
    return used, case["total_tokens"] / case["tokens_per_step"] * case["step_seconds"] / 86400


def _draw(rng: Random) -> list[Case]:
    """Runs of about 20,000 steps, where an error of 100 steps is noticed but a partial last step is not."""
    cases = []
    for num_gpus, peak in product((8, 1024, 16384), (312e12, 989.5e12)):
        tokens = rng.randint(1, 64) * 2**20
        num_steps = 100 * rng.randint(150, 250) + rng.randint(30, 70)
        sizes = (rng.randint(1, 2000) * 10**9, tokens, rng.randint(10, 900) / 10, num_gpus, peak)
        cases.append(dict(zip(NAMES, (*sizes, num_steps * tokens + tokens // 3), strict=True)))
    return cases


CHECK = Check(
    exercise="week10.trillion",
    points=1,
    names=("used_and_days",),
    public=tuple(
        dict(zip(NAMES, case, strict=True))
        for case in (
            (10**12, 4_194_304, 50.0, 1024, 989.5e12, 20 * 10**12),
            (7 * 10**9, 4_194_304, 4.0, 256, 312e12, 10**11),
        )
    ),
    draw=_draw,
    make=formula_task("used_and_days", NAMES, _used_and_days),
    judge=judge_numbers(
        ("the fraction of the peak", "the number of days"), relative=1e-4
    ),  # the last step may be rounded up
    program="without_ranks",
    masked=MASKED,
    hints=(
        "A token needs 6 FLOPs per parameter: 2 forward, 4 backward.",
        "share = 6 * P * tokens_per_step / (step_seconds * num_gpus * peak_flops)",
        "days = total_tokens / tokens_per_step * step_seconds / 86400",
    ),
)
