"""The number of microbatches from which 1F1B is faster than ZB-H1, when the split backward costs extra time.

Expected values come from the simulator, which runs both schedules for different numbers of microbatches.
"""

from __future__ import annotations

from random import Random

from shardlab.pipeline_parallel.builders import one_f_one_b, zb_h1
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.simulation import simulate

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import formula_task, numbers_of, shown, trouble_in_call
from autograder.checks.schedules import BUILDERS

NAMES = ("num_ranks", "weight_gradient", "extra")
MOST = 400


def _wins_from(case: Case) -> int:
    """The smallest number, found by bisection: the lead of ZB-H1 shrinks with every microbatch."""
    least, most = case["num_ranks"], MOST
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if _is_quicker(case, middle) else (middle + 1, most)
    return least


def _is_quicker(case: Case, num_microbatches: int) -> bool:
    """Whether 1F1B takes less time. F takes as long as W, and I a little longer than W: the best case for ZB-H1.

    I is a quarter longer, so that with `weight_gradient` and `extra` in quarters and eighths a tie is exact in floats.
    """
    ranks, weight, extra = case["num_ranks"], case["weight_gradient"], case["extra"]
    split = Durations(weight, 1.25 * weight + extra, weight)
    whole = Durations(weight, 1.25 * weight, weight)
    one = simulate(one_f_one_b(ranks, num_microbatches), whole).makespan
    return one < simulate(zb_h1(ranks, num_microbatches), split).makespan


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = numbers_of(reply)
    if type(received) is int and close(received, task.expected[0]):
        return None
    what = "a whole number" if type(received) is not int else "the smallest number of microbatches"
    return f"For ({shown(case)}), {received!r} is not {what}."


def _draw(rng: Random) -> list[Case]:
    """Crossings between two whole numbers, exactly on one (where both take equally long), and below num_ranks."""
    cases = []
    for num_ranks, least, most in ((2, 4, 30), (3, 4, 30), (4, 4, 20), (rng.randint(5, 8), 4, 8)):
        ratio = rng.randint(least, most) + rng.choice([0.25, 0.5, 0.75]) / max(1, num_ranks - 1)  # 2W/e
        weight = rng.uniform(0.5, 2)
        cases.append((num_ranks, weight, 2 * weight / ratio))
    cases += [(num_ranks, 1.0, extra) for num_ranks in (2, 3, 4, 5) for extra in (0.125, 0.25, 0.5, 1.5)]
    return [dict(zip(NAMES, case, strict=True)) for case in cases]


CHECK = Check(
    exercise="week08.wins",
    points=1,
    names=("one_f_one_b_wins_from",),
    public=tuple(dict(zip(NAMES, case, strict=True)) for case in ((4, 1.0, 0.16), (3, 1.0, 0.25), (4, 1.0, 1.5))),
    draw=_draw,
    make=formula_task("one_f_one_b_wins_from", NAMES, _wins_from),
    judge=_judge,
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "For both, write the time of a step: M passes of everything, plus the idle time. Subtract.",
        "With B = I + W - e: 1F1B takes (M+P-1)(F+B), ZB-H1 takes M(F+B+e) + (P-1)(F+I-W).",
        "ZB-H1 saves (P-1)(2W-e) in all and loses M*e: the smallest whole M with M*e > (P-1)(2W-e).",
    ),
)
