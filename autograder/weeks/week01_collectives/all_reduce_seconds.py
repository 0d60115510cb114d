"""Seconds of a ring and of a tree all-reduce in the alpha-beta model."""

from __future__ import annotations

from random import Random

from shardlab.costs import traffic

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import FORMULAS, formula_task, numbers_of, shown, trouble_in_call


def _seconds(case: Case) -> float:
    return traffic.all_reduce_seconds(
        case["num_ranks"], case["num_bytes"], alpha=case["alpha"], beta=case["beta"], algorithm=case["algorithm"]
    )


def _judge_seconds(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = numbers_of(reply)
    if not close(received, task.expected[0]):
        return f"For ({shown(case)}), the {case['algorithm']} does not take {received!r} s."
    return None


def _draw_seconds(rng: Random) -> list[Case]:
    return [
        {
            "num_ranks": num_ranks,
            "num_bytes": rng.randint(1000, 10**8),
            "alpha": rng.uniform(1e-6, 1e-4),
            "beta": rng.uniform(1e-11, 1e-9),
            "algorithm": algorithm,
        }
        for num_ranks in (2, 5, 16, 33, rng.randint(66, 100))
        for algorithm in ("ring", "tree")
    ]


_LINK = {"alpha": 1e-5, "beta": 2e-11}


CHECK = Check(
    exercise="week01.all-reduce-seconds",
    points=2,
    names=("all_reduce_seconds",),
    public=tuple(
        {"num_ranks": n, "num_bytes": 14e9, **_LINK, "algorithm": name} for n in (2, 6) for name in ("ring", "tree")
    ),
    draw=_draw_seconds,
    make=formula_task("all_reduce_seconds", ("num_ranks", "num_bytes", "alpha", "beta", "algorithm"), _seconds),
    judge=_judge_seconds,
    program="without_ranks",
    masked=FORMULAS,
    hints=(
        "Count what must happen sequentially: the steps, and the bytes in each step.",
        "Ring: 2(N-1) steps of S/N bytes. Tree: ceil(log2 N) levels up and as many down, S bytes each.",
        "steps * (alpha + beta * bytes in a step); the levels of a tree are (N - 1).bit_length().",
    ),
)
