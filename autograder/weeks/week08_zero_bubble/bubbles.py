"""How long a rank idles in 1F1B and in ZB-H1, for any durations of F, I and W.

Expected values come from the simulator, not from a formula. Durations are drawn with W no longer than F and I, because
ZB-H1's formula holds only there.
"""

from __future__ import annotations

from random import Random

from shardlab.pipeline_parallel.builders import one_f_one_b, zb_h1
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.simulation import simulate

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.checks.schedules import BUILDERS

NAMES = ("num_ranks", "forward", "input_gradient", "weight_gradient")


def _bubbles(case: Case) -> tuple[float, float]:
    ranks = case["num_ranks"]
    durations = Durations(case["forward"], case["input_gradient"], case["weight_gradient"])
    one, zero = (simulate(build(ranks, 2 * ranks), durations).idle[0] for build in (one_f_one_b, zb_h1))
    return one, zero


def _draw_bubbles(rng: Random) -> list[Case]:
    cases = []
    for num_ranks in (1, 2, rng.randint(3, 6), rng.randint(7, 12)):
        weight = rng.uniform(0.5, 1.5)
        seconds = (weight + rng.uniform(0, 1), weight + rng.uniform(0.05, 1), weight)
        cases.append(dict(zip(NAMES, (num_ranks, *seconds), strict=True)))
    return cases


CHECK = Check(
    exercise="week08.bubbles",
    points=1,
    names=("bubbles",),
    public=tuple(dict(zip(NAMES, case, strict=True)) for case in ((4, 1.0, 1.0, 1.0), (3, 1.0, 1.2, 0.8))),
    draw=_draw_bubbles,
    make=formula_task("bubbles", NAMES, _bubbles),
    judge=judge_numbers(("the idle time of a rank in 1F1B", "the idle time of a rank in ZB-H1")),
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "Follow rank 0: what happens between its last warm-up forward and its first backward?",
        "1F1B: P-1 ranks each do a forward and a full backward. In ZB-H1 no rank waits for W; rank 0 fits some in.",
        "(P-1)(F+I+W) for 1F1B. For ZB-H1, (P-1)(F+I) minus the P-1 weight gradients that fill the wait.",
    ),
)
