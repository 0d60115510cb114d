"""The costs of DualPipe: idle time of the rank that idles longest, and activations held.

Expected values come from simulating the paper's order and counting its activations, at balance: F = I, W no longer.
"""

from __future__ import annotations

from random import Random

from shardlab.pipeline_parallel.builders import dualpipe
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.simulation import peak_activations, simulate

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.checks.schedules import BUILDERS

NAMES = ("num_ranks", "forward", "weight_gradient", "pair")


def _bill(case: Case) -> tuple[float, int]:
    ranks, forward = case["num_ranks"], case["forward"]
    schedule = dualpipe(ranks, 2 * ranks + 4)
    durations = Durations(forward, forward, case["weight_gradient"], overlapped=case["pair"])
    return max(simulate(schedule, durations).idle), max(peak_activations(schedule))


def _draw_bills(rng: Random) -> list[Case]:
    cases = []
    for num_ranks in (2, 4, 6, 8, 10, 12):
        forward = rng.uniform(0.5, 2)
        weight = forward * rng.uniform(0.5, 1)
        pair = (2 * forward + weight) * rng.uniform(0.85, 1)
        cases.append(dict(zip(NAMES, (num_ranks, forward, weight, pair), strict=True)))
    return cases


CHECK = Check(
    exercise="week13.bill",
    points=1,
    names=("dualpipe_bill",),
    public=tuple(
        dict(zip(NAMES, case, strict=True)) for case in ((8, 1.0, 1.0, 3.0), (8, 1.0, 0.8, 2.8), (4, 1.0, 0.8, 2.5))
    ),
    draw=_draw_bills,
    make=formula_task("dualpipe_bill", NAMES, _bill),
    judge=judge_numbers(("the idle time of the rank that idles longest", "the number of activations that it holds")),
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "The printed formula has the pair, the full backward and W. Which of them is B here?",
        "B is the full backward: I and W in one pass, and I takes as long as F.",
        "(P/2 - 1) * (pair + (F + W) - 3W), and P + 1 activations.",
    ),
)
