"""Rows of an expert, the fraction dropped at a capacity equal to the even share, and if all choose the same experts."""

from __future__ import annotations

from math import ceil
from random import Random

from shardlab.costs.experts import dropped_share

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers

SIZES = ("tokens", "experts", "k", "factor")
NAMES = (
    "the number of rows that an expert takes",
    "the fraction of choices that a uniform router loses at factor 1",
    "the fraction lost when all tokens choose the same k experts",
)
SWITCH = {"tokens": 4096, "experts": 64, "k": 1, "factor": 1.25}


def expected(case: Case) -> list[float]:
    """The three numbers of NAMES: rows, and two fractions."""
    tokens, experts, k, factor = (case[name] for name in SIZES)
    rows = ceil(factor * tokens * k / experts)
    even = dropped_share(tokens * k / experts, k_of_experts=k / experts)
    return [rows, even, max(0.0, 1 - rows / tokens)]


def _draw(rng: Random) -> list[Case]:
    """One choice and several; rows that must be rounded up; a capacity that drops nothing; few experts."""

    def case(tokens: int, experts: int, k: int, factor: float) -> Case:
        return dict(zip(SIZES, (tokens, experts, k, factor), strict=True))

    return [
        case(64 * rng.randint(20, 90), 64, 1, 1.25),
        case(97 * rng.randint(11, 40), 48, rng.randint(2, 5), rng.choice([1.1, 1.3])),
        case(rng.randint(300, 900), 8, 4, 2.5),
        case(4096, 256, 8, rng.choice([1.0, 2.0])),
    ]


CHECK = Check(
    exercise="week11.bill",
    points=1,
    names=("expert_bill",),
    public=(
        SWITCH,
        {"tokens": 1000, "experts": 48, "k": 4, "factor": 1.1},
        dict(zip(SIZES, (64, 4, 2, 2.5), strict=True)),
    ),
    draw=_draw,
    make=formula_task("expert_bill", SIZES, expected),
    judge=judge_numbers(NAMES),
    program="without_ranks",
    masked=("shardlab.costs", "shardlab.model"),
    hints=(
        "T tokens make Tk choices. How many would each expert get if the load were even? The capacity is that number "
        "times the factor, rounded up to whole rows.",
        "Each token chooses an expert with probability k/E, so n = Tk/E rows on average, with variance n(1 − k/E) and "
        "σ "
        "its square root. On average σ/√(2π) rows are above the mean; E experts lose that many of Tk choices. "
        "If all tokens choose the same k experts, each of these gets T tokens.",
        "rows = ceil(factor * T * k / E); sqrt((1 - k/E) / (2π n)); max(0, 1 - rows / T).",
    ),
)
