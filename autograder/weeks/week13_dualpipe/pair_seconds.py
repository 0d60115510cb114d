"""The seconds of an overlapped pair: in sequence, and perfectly overlapped."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

NAMES = ("forward", "backward", "all_to_all")
TRANSFERS = 4  # dispatch and combine, forward and backward


def _seconds(case: Case) -> tuple[float, float]:
    compute, transfers = case["forward"] + case["backward"], TRANSFERS * case["all_to_all"]
    return compute + transfers, max(compute, transfers)


def _draw(rng: Random) -> list[Case]:
    drawn = [(rng.uniform(1, 3), rng.uniform(2, 6)) for _ in range(5)]
    shares = (0.1, 0.5, 0.95, 1.05, 2.0)  # transfers as a fraction of compute
    return [
        dict(zip(NAMES, (forward, backward, share * (forward + backward) / TRANSFERS), strict=True))
        for (forward, backward), share in zip(drawn, shares, strict=True)
    ]


CHECK = Check(
    exercise="week13.pair-seconds",
    points=1,
    names=("pair_seconds",),
    public=tuple(dict(zip(NAMES, case, strict=True)) for case in ((1.0, 2.0, 0.5), (1.0, 2.0, 1.0), (1.5, 2.5, 0.5))),
    draw=_draw,
    make=formula_task("pair_seconds", NAMES, _seconds),
    judge=judge_numbers(("the seconds of the pair in sequence", "the seconds of a perfectly overlapped pair")),
    program="without_ranks",
    hints=(
        "How many all-to-alls does one MoE layer run, forward and backward together?",
        "Dispatch and combine, each forward and backward: four. The device computes while the network sends.",
        "In sequence: F + B + 4a. Overlapped, whichever is longer: max(F + B, 4a).",
    ),
)
