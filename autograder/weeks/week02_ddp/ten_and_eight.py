"""10 ms of compute and 8 ms of communication: efficiency without overlap and with full overlap."""

from __future__ import annotations

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.weeks.week02_ddp.efficiency import FORMULAS, expected_efficiency


def both(case: Case) -> tuple[float, float]:
    """Without overlap, and with the backward (two thirds of the compute) as the window."""
    seconds = {"compute_seconds": 0.010, "communication_seconds": 0.008}
    none, all_of_it = ({**seconds, "window_seconds": window} for window in (0.0, 0.010 * 2 / 3))
    return expected_efficiency(none), expected_efficiency(all_of_it)


CHECK = Check(
    exercise="week02.ten-and-eight",
    points=1,
    names=("ten_and_eight",),
    public=({},),
    draw=lambda rng: [{}],
    make=formula_task("ten_and_eight", (), both),
    judge=judge_numbers(("the efficiency without overlap", "the efficiency when the backward hides what it can"), 0.01),
    program="without_ranks",
    masked=FORMULAS,
    hints=(
        "Without overlap the window is zero. With overlap it is the backward, because no gradient exists before it.",
        "A backward takes twice as long as its forward: two thirds of 10 ms.",
        "10 / (10 + 8), and 10 / (10 + 8 - 20/3).",
    ),
)
