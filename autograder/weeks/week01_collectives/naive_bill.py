"""Messages and bytes at rank 0 when everything goes through it."""

from __future__ import annotations

from random import Random

from shardlab.costs import traffic

from autograder.checks.base import Case, Check
from autograder.checks.formulas import FORMULAS, formula_task, judge_numbers


def _naive_bill(case: Case) -> tuple[float, float]:
    naive = traffic.naive_all_reduce_bytes(case["num_ranks"], case["num_bytes"])
    return traffic.all_reduce_messages(case["num_ranks"], "naive"), naive.sent + naive.received


def _draw_bills(rng: Random) -> list[Case]:
    return [
        {"num_ranks": n, "num_bytes": rng.randint(1, 10**9)} for n in (1, 2, rng.randint(3, 9), rng.randint(10, 99))
    ]


CHECK = Check(
    exercise="week01.naive-bill",
    points=1,
    names=("naive_all_reduce_bill",),
    public=({"num_ranks": 8, "num_bytes": 14e9}, {"num_ranks": 3, "num_bytes": 1000}),
    draw=_draw_bills,
    make=formula_task("naive_all_reduce_bill", ("num_ranks", "num_bytes"), _naive_bill),
    judge=judge_numbers(("the number of messages", "the number of bytes at rank 0")),
    program="without_ranks",
    masked=FORMULAS,
    hints=(
        "Every rank except rank 0 sends it one tensor and gets one back.",
        "There are N-1 messages in each direction.",
        "messages = 2 * (N - 1); bytes = messages * S.",
    ),
)
