"""How the two terms of a ring grow from 8 to 64 ranks, with a tolerance of 1% for rounded answers."""

from __future__ import annotations

from shardlab.costs import traffic

from autograder.checks.base import Case, Check
from autograder.checks.formulas import FORMULAS, formula_task, judge_numbers


def _factors(case: Case) -> tuple[float, float]:
    one = (traffic.ring_all_reduce_bytes(8, 1.0), traffic.all_reduce_messages(8))
    many = (traffic.ring_all_reduce_bytes(64, 1.0), traffic.all_reduce_messages(64))
    return many[0] / one[0], many[1] / one[1]


CHECK = Check(
    exercise="week01.eight-to-sixty-four",
    points=1,
    names=("eight_to_sixty_four",),
    public=({},),
    draw=lambda rng: [{}],
    make=formula_task("eight_to_sixty_four", (), _factors),
    judge=judge_numbers(("the factor of the bandwidth term", "the factor of the latency term"), 0.01),
    program="without_ranks",
    masked=FORMULAS,
    hints=(
        "Write the seconds of a ring for N ranks. Look at the coefficients of S * beta and of alpha.",
        "The coefficient of S * beta is 2(N-1)/N, that of alpha is 2(N-1).",
        "Divide the value of each coefficient for N=64 by its value for N=8.",
    ),
)
