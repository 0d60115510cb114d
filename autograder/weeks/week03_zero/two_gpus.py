"""Model states of 100 million parameters on two GPUs, in GB. Rounded answers pass."""

from __future__ import annotations

from shardlab.costs.memory.states import zero_state_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.checks.shards import TABLES_MASKED
from autograder.weeks.week03_zero._stages import STAGES


def _gigabytes(case: Case) -> list[float]:
    return [zero_state_bytes(100e6, 2, stage).total / 1e9 for stage in range(4)]


CHECK = Check(
    exercise="week03.two-gpus",
    points=1,
    names=("hundred_million_on_two",),
    public=({},),
    draw=lambda rng: [{}],
    make=formula_task("hundred_million_on_two", (), _gigabytes),
    judge=judge_numbers(STAGES, 1e-3, "GB"),
    program="without_ranks",
    masked=TABLES_MASKED,
    hints=(
        "Your own state_bytes returns the four numbers, in bytes. 1 GB is 10^9 bytes.",
        "Without ZeRO, 16 bytes for each of 10^8 parameters make 1.6 GB.",
        "Stage 1 with N = 2: 4 + 12/2 = 10 bytes per parameter.",
    ),
)
