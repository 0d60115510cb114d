"""Seconds to send a step's bytes over a slow link, with a tolerance of 1% for rounded answers."""

from __future__ import annotations

from random import Random

from shardlab.costs import traffic

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.checks.shards import TABLES_MASKED

BF16 = 2


def _seconds(case: Case) -> tuple[float, float]:
    num_bytes, bytes_per_second = BF16 * case["num_parameters"], case["bits_per_second"] / 8
    ddp, zero3 = (traffic.zero_bytes(case["num_ranks"], num_bytes, stage) for stage in (0, 3))
    return ddp / bytes_per_second, zero3 / bytes_per_second


def _draw(rng: Random) -> list[Case]:
    return [
        {
            "num_parameters": rng.randint(10**8, 10**11),
            "num_ranks": num_ranks,
            "bits_per_second": rng.choice([10**9, 25 * 10**9, 4 * 10**11]),
        }
        for num_ranks in (2, rng.randint(3, 9), rng.randint(10, 99), 1024)
    ]


CHECK = Check(
    exercise="week04.ethernet",
    points=1,
    names=("seconds_a_step",),
    public=(
        {"num_parameters": 65_000_000_000, "num_ranks": 64, "bits_per_second": 10_000_000_000},
        {"num_parameters": 1_000_000_000, "num_ranks": 2, "bits_per_second": 400_000_000_000},
    ),
    draw=_draw,
    make=formula_task("seconds_a_step", ("num_parameters", "num_ranks", "bits_per_second"), _seconds),
    judge=judge_numbers(("the seconds of DDP", "the seconds of ZeRO-3"), 0.01),
    program="without_ranks",
    masked=TABLES_MASKED,
    hints=(
        "How many bytes does one rank send per step, and how many bytes per second does 10 GbE carry?",
        "bf16: S is 2 bytes per parameter. DDP sends 2(N-1)/N of S, ZeRO-3 sends 3(N-1)/N. A byte has 8 bits.",
        "seconds = times * (N - 1) / N * 2 * P * 8 / bits_per_second, where times is 2 or 3.",
    ),
)
