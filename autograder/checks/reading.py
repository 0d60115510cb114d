"""Shared by the checks of source-code reading: short answers by key, compared without what does not matter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of

COLLECTIVES = "all_gather|reduce_scatter|all_to_all|all_reduce"
ENDINGS = "_single|_into_tensor|_tensor|_base|_coalesced"  # the same collective, of one tensor or of many
_VARIANT = re.compile(f"_?({COLLECTIVES})({ENDINGS})")


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
    """An answer in small letters, `-` and spaces as `_`, and True is not 1.

    A name goes without what it belongs to (`self.`), its brackets, and a collective's variant (`all_gather_single`).
    """
    if isinstance(value, str):
        name = "_".join(value.lower().replace("-", " ").split()).split("(")[0].rsplit(".", 1)[-1]
        return match[1] if (match := _VARIANT.fullmatch(name)) else name
    if isinstance(value, list | tuple):
        return [plainly(item) for item in value]
    return (type(value).__name__, value)
