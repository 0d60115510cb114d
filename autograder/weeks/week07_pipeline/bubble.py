"""The bubble as a share of the step and, as in PTD-P, of the working time; the speed-up over one GPU, as in GPipe."""

from __future__ import annotations

from random import Random

from shardlab.costs.clock.step import bubble_share

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

FORMULAS = ("shardlab.costs.clock.step",)


def _bubble_and_speedup(case: Case) -> tuple[float, float, float]:
    idle = bubble_share(case["num_ranks"], case["num_microbatches"])
    return idle, idle / (1 - idle), case["num_ranks"] * (1 - idle)


def _draw_bubbles(rng: Random) -> list[Case]:
    sizes = [(1, rng.randint(2, 9)), (2, 4), (rng.randint(3, 8), 1), (8, 8), (rng.randint(9, 64), rng.randint(2, 500))]
    return [{"num_ranks": ranks, "num_microbatches": microbatches} for ranks, microbatches in sizes]


CHECK = Check(
    exercise="week07.bubble",
    points=1,
    names=("bubble_and_speedup",),
    public=tuple({"num_ranks": ranks, "num_microbatches": num} for ranks, num in ((2, 1), (2, 4), (4, 8))),
    draw=_draw_bubbles,
    make=formula_task("bubble_and_speedup", ("num_ranks", "num_microbatches"), _bubble_and_speedup),
    judge=judge_numbers(("idle time over the step", "idle time over working time", "the speed-up over one GPU")),
    program="without_ranks",
    masked=FORMULAS,
    hints=(
        "Count in units of one microbatch on one stage, forward and backward together.",
        "The step takes M + P - 1 units; a rank works for M of them and idles for the rest. "
        "One GPU runs all stages of all microbatches.",
        "(P-1)/(M+P-1) of the step; (P-1)/M of the working time; one GPU takes M*P units: M*P/(M+P-1).",
    ),
)
