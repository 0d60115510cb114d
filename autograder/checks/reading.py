"""Shared by the checks of source-code reading: short answers by key, compared without what does not matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of

PREFIXES = ("dist.", "torch.distributed.", "torch.autograd.", "self.")


def reading_check(
    exercise: str, expected: Mapping[str, Any], where: Mapping[str, str], *, hints: tuple[str, ...], points: float = 1
) -> Check:
    """The check of `reading_answers`, a dict with the keys of `due`; `where` says for each key where to look again."""

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        if problem := trouble_in_call(reply):
            return problem
        received = value_of(reply)
        if not isinstance(received, dict):
            return f"reading_answers must be a dict with the keys {', '.join(expected)}."
        wrong = [key for key in expected if plainly(received.get(key)) != plainly(expected[key])]
        if not wrong:
            return None
        return f"Not correct yet: {', '.join(wrong)}. For {wrong[0]}: {where[wrong[0]]}."

    return Check(
        exercise=exercise,
        points=points,
        names=("reading_answers",),
        public=({},),
        draw=lambda rng: [{}],
        make=lambda case, rng: Task(call=None, ranks=1, inputs=[[]], expected=[], groups=[]),
        judge=judge,
        program="without_ranks",
        hints=hints,
    )


def plainly(value: Any) -> Any:
    """An answer in small letters, `-` and spaces as `_`, no module before and no brackets after; True is not 1."""
    if isinstance(value, str):
        text = "_".join(value.lower().replace("-", " ").split()).removesuffix("()")
        for prefix in PREFIXES:
            text = text.removeprefix(prefix)
        return text
    if isinstance(value, list | tuple):
        return [plainly(item) for item in value]
    return (type(value).__name__, value)
