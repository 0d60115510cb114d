"""The first whole number that a float format loses."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import formula_task, numbers_of, trouble_in_call


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = numbers_of(reply)
    if not close(received, task.expected[0]):
        return (
            f"With {case['fraction_bits']} bits of fraction, {received!r} is not the first n for which n + 1 gives n."
        )
    return None


def _draw(rng: Random) -> list[Case]:
    return [{"fraction_bits": bits} for bits in (2, 3, 23, rng.randint(4, 52))]


CHECK = Check(
    exercise="prerequisites.first-lost",
    points=1,
    names=("first_lost",),
    public=({"fraction_bits": 7}, {"fraction_bits": 10}),
    draw=_draw,
    make=formula_task("first_lost", ("fraction_bits",), lambda case: 2 ** (case["fraction_bits"] + 1)),
    judge=_judge,
    program="without_ranks",
    hints=(
        "With 7 bits of fraction, which numbers between 256 and 512 exist? How far apart are they?",
        "Between 2^k and 2^(k+1) there are 2^bits numbers at equal distances. When is that distance 2?",
        "The distance is 2 from 2^(bits + 1) on, and a tie is rounded to the even neighbor.",
    ),
)
