"""Bytes of model states on one rank, for DDP and the three stages of ZeRO, without padding."""

from __future__ import annotations

from random import Random

from shardlab.costs.memory.states import zero_state_bytes

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.checks.shards import TABLES_MASKED
from autograder.weeks.week03_zero._stages import STAGES


def _table(case: Case) -> list[float]:
    return [zero_state_bytes(case["num_parameters"], case["num_ranks"], stage).total for stage in range(4)]


def _draw(rng: Random) -> list[Case]:
    return [{"num_parameters": rng.randint(10**6, 10**11), "num_ranks": n} for n in (1, 2, rng.randint(3, 9), 64, 1024)]


CHECK = Check(
    exercise="week03.state-bytes",
    points=1,
    names=("state_bytes",),
    public=({"num_parameters": 7e9, "num_ranks": 8}, {"num_parameters": 1e9, "num_ranks": 64}),
    draw=_draw,
    make=formula_task("state_bytes", ("num_parameters", "num_ranks"), _table),
    judge=judge_numbers(STAGES, unit="bytes"),
    program="without_ranks",
    masked=TABLES_MASKED,
    hints=(
        "A parameter costs 2 bytes as a weight, 2 as a gradient, 12 in the optimizer. Which are split in each stage?",
        "Stage 1 divides the 12 by N, stage 2 also the gradient's 2, stage 3 also the weight's 2.",
        "16P, then 4P + 12P/N, then 2P + 14P/N, then 16P/N.",
    ),
)
