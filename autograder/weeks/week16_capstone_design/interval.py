"""How often to write checkpoints, and the share of the time spent on work that is not repeated."""

from __future__ import annotations

from itertools import product
from random import Random

from shardlab.costs import failures

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import numbers_of, shown, trouble_in_call
from autograder.weeks.week16_capstone_design._design import MASKED

PARTS = {"best_interval": ("save", "between"), "goodput": ("interval", "save", "between", "restart")}


def expected(case: Case) -> float:
    sizes = [case[name] for name in PARTS[case["part"]]]
    return {"best_interval": failures.best_interval, "goodput": failures.goodput}[case["part"]](*sizes)


def _make(case: Case, rng: Random) -> Task:
    arguments = [case[name] for name in PARTS[case["part"]]]
    return Task(call=case["part"], ranks=1, inputs=[[arguments]], expected=[expected(case)], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = numbers_of(reply)
    if close(received, task.expected[0]):
        return None
    sizes = shown({name: value for name, value in case.items() if name != "part"})
    what = "the seconds of work between checkpoints" if case["part"] == "best_interval" else "the share of work"
    return f"For ({sizes}) {received!r} is not {what}."


def _draw(rng: Random) -> list[Case]:
    """Fast and slow checkpoints, rare and frequent failures, with and without restart time."""
    cases: list[Case] = []
    for save, between in product((rng.randint(1, 9), rng.randint(60, 600)), (rng.randint(2, 9) * 1000, 500_000)):
        cases.append({"part": "best_interval", "save": save, "between": between})
        for interval, restart in ((rng.randint(100, 900), 0), (rng.randint(1, 5) * 1000, rng.randint(60, 900))):
            sizes = {"interval": interval, "save": save, "between": between, "restart": restart}
            cases.append({"part": "goodput"} | sizes)
    return cases


CHECK = Check(
    exercise="week16.interval",
    points=2,
    names=tuple(PARTS),
    public=(
        {"part": "best_interval", "save": 3, "between": 11_000},
        {"part": "best_interval", "save": 200, "between": 40_000},
        {"part": "goodput", "interval": 257, "save": 3, "between": 11_000, "restart": 300},
        {"part": "goodput", "interval": 3600, "save": 60, "between": 11_000, "restart": 0},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    parts=dict.fromkeys(PARTS, 0.5),
    hints=(
        "best_interval: per second of work, checkpoints cost save / interval and lost work interval / (2 * between). "
        "goodput: Daly's formula above, with both exponentials; the sum of the two costs only "
        "approximates it.",
        "save / interval + interval / (2 * between) is smallest where its derivative is 0: both terms are equal there.",
        "goodput = interval / (between * exp(restart / between) * (exp((interval + save) / between) - 1)).",
    ),
)
