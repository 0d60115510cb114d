"""How many times less a ZeRO-3 rank holds: of the model states, and of states and activations together."""

from __future__ import annotations

from random import Random

from shardlab.costs.memory.states import zero_state_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.checks.shards import TABLES_MASKED


def _saved(case: Case) -> tuple[float, float]:
    whole, cut = (zero_state_bytes(case["num_parameters"], case["num_ranks"], stage).total for stage in (0, 3))
    activations = case["activation_bytes"]
    return whole / cut, (whole + activations) / (cut + activations)


def _draw(rng: Random) -> list[Case]:
    return [
        {
            "num_parameters": rng.randint(10**8, 10**11),
            "num_ranks": num_ranks,
            "activation_bytes": share * rng.randint(10**9, 10**11),
        }
        for num_ranks, share in ((1, 1), (8, 0), (rng.randint(3, 60), 1), (rng.randint(100, 999), 1))
    ]


CHECK = Check(
    exercise="week04.n-times",
    points=1,
    names=("zero3_saves",),
    public=(
        {"num_parameters": 7_000_000_000, "num_ranks": 64, "activation_bytes": 10_000_000_000},
        {"num_parameters": 1_000_000_000, "num_ranks": 8, "activation_bytes": 0},
    ),
    draw=_draw,
    make=formula_task("zero3_saves", ("num_parameters", "num_ranks", "activation_bytes"), _saved),
    judge=judge_numbers(("the factor of the model states", "the factor of states and activations together")),
    program="without_ranks",
    masked=TABLES_MASKED,
    hints=(
        "Write down what a rank holds with DDP and with ZeRO-3, separately for states and activations.",
        "16P bytes become 16P/N. The activations are the same in both.",
        "The second factor is (16 * P + A) / (16 * P / N + A).",
    ),
)
