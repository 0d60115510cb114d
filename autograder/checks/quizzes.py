"""The check of a quiz. The answer's seed draws ten questions; each right number earns a tenth of the points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shardlab.study import quiz

from autograder.checks.base import Case, Check, Reply, Task, close
from autograder.checks.formulas import trouble_in_call
from autograder.checks.reading import is_blank

Answers = Mapping[int, Callable[..., float]]
RELATIVE = 0.01  # three digits are enough, except for a count


def quiz_check(exercise: str, number: int, answers: Answers, where: Mapping[int, str], points: float = 5) -> Check:
    """The check of `seed` and `quiz_answers`; `where` says for each question which week explains it.

    answers: a formula that returns an int counts something, and its number must be exact.
    """

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        if problem := trouble_in_call(reply):
            return problem
        place = case["question"]
        seed, received = _values(reply)
        if type(seed) is not int or not isinstance(received, list | tuple) or len(received) != 10:
            return "seed must be a whole number, and quiz_answers a list of ten numbers."
        value = received[place - 1]
        if is_blank(value):
            return f"Not answered yet: question {place}."
        expected = answers[place](**quiz.numbers(number, seed)[place])
        if not close(value, expected, 0 if type(expected) is int else RELATIVE):
            return f"Question {place}: {value!r} is not right. See {where[place]}."
        return None

    return Check(
        exercise=exercise,
        points=points,
        names=("seed", "quiz_answers"),
        public=tuple({"question": place, "part": f"question {place}"} for place in answers),
        draw=lambda rng: [],
        make=lambda case, rng: Task(call=None, ranks=1, inputs=[[]], expected=[], groups=[]),
        judge=judge,
        program="without_ranks",
        parts={f"question {place}": 1.0 for place in answers},
        hints=(
            "Write the formula first, then the numbers, then the unit.",
            "An all-reduce is a reduce-scatter and an all-gather. 1 GB is 10⁹ bytes, 1 MB is 10⁶ bytes.",
            "The formulas are in shardlab.costs; the page of the week in the feedback derives them.",
        ),
    )


def _values(reply: Reply) -> list[Any]:
    """The seed and the answers."""
    answers = reply.ranks[0].get("answers")
    found = [one.get("value", {}).get("plain") for one in answers] if isinstance(answers, list) else []
    return found if len(found) == 2 else [None, None]
