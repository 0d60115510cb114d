"""The scaling laws of Kaplan et al.: the model and tokens that a larger budget should train."""

from __future__ import annotations

from random import Random

from shardlab.costs.models.scaling import scaled_run

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.weeks.week16_capstone_design._design import MASKED

NAMES = ("parameters", "tokens", "loss", "times")


def scaled(case: Case) -> tuple[float, float, float]:
    """(parameters, tokens, loss) at `times` the compute."""
    return scaled_run(*(case[name] for name in NAMES))


def _case(*values: float) -> Case:
    return dict(zip(NAMES, values, strict=True))


def _draw(rng: Random) -> list[Case]:
    """Smaller and larger budgets, and the same one."""
    times = [1, 2, rng.randint(3, 9), 10, 10 ** rng.randint(2, 5), 1 / rng.randint(2, 9)]
    return [_case(rng.randint(1, 900) * 1e9, rng.randint(1, 99) * 1e11, rng.randint(15, 40) / 10, one) for one in times]


CHECK = Check(
    exercise="week16.scaling",
    points=1,
    names=("scaled_run",),
    public=(_case(70e9, 2e12, 2.0, 10), _case(1e9, 20e9, 3.0, 0.5)),
    draw=_draw,
    make=formula_task("scaled_run", NAMES, scaled),
    judge=judge_numbers(("the parameters", "the tokens", "the loss")),
    program="without_ranks",
    optional=True,
    masked=MASKED,
    hints=(
        "If N grows as a power of the compute C, ten times the compute means N times 10 to this power.",
        "C is 6 N D. If N grows with C to the power 0.73, which power is left for D?",
        "The loss falls: loss * times ** -0.050.",
    ),
)
