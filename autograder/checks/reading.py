"""Helpers for checks of source-code reading: short answers by key, compared after normalization."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, trouble_in_call

COLLECTIVES = "all_gather|reduce_scatter|all_to_all|all_reduce"
ENDINGS = "_single|_into_tensor|_tensor|_base|_coalesced"  # the same collective on one tensor or on several
_VARIANT = re.compile(f"_?({COLLECTIVES})({ENDINGS})")


def reading_check(
    exercise: str,
    expected: Mapping[str, Any],
    where: Mapping[str, str],
    *,
    hints: tuple[str, ...],
    points: float = 1,
    optional: bool = False,
) -> Check:
    """The check of `reading_answers`, a dict with the keys of `expected`; `where` has a pointer for each wrong key."""

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        if problem := trouble_in_call(reply):
            return problem
        received = numbers_of(reply)
        if not isinstance(received, dict):
            return f"reading_answers must be a dict with the keys {', '.join(expected)}."
        missing = [key for key in expected if is_blank(received.get(key))]
        if len(missing) == len(expected):
            return "Not answered yet: replace each None in reading_answers with your answer."
        wrong = [key for key in expected if key not in missing and not is_same(received[key], expected[key])]
        told = [f"Not answered yet: {', '.join(missing)}."] if missing else []
        told += [f"Not correct yet: {', '.join(wrong)}."] if wrong else []
        first = next(iter(wrong or missing), None)
        return " ".join([*told, f"For {first}: {where[first]}."]) if first is not None else None

    return Check(
        exercise=exercise,
        points=points,
        optional=optional,
        names=("reading_answers",),
        public=({},),
        draw=lambda rng: [{}],
        make=lambda case, rng: Task(call=None, ranks=1, inputs=[[]], expected=[], groups=[]),
        judge=judge,
        program="without_ranks",
        hints=hints,
    )


def is_blank(value: Any) -> bool:
    """Whether there is no answer: None, an empty string or list, or `...`."""
    return value is None or (isinstance(value, str) and value.strip() in ("", "...", "…")) or value in ([], ())


def is_same(received: Any, expected: Any) -> bool:
    """Whether an answer is the expected one; a number may be given as text, and a list as a tuple."""
    return plainly(_like(received, expected)) == plainly(expected)


def _like(received: Any, expected: Any) -> Any:
    """Convert a number to the expected type: `"1,048,576"` and `1048576.0` become 1048576; True stays True."""
    if isinstance(expected, list | tuple) and isinstance(received, list | tuple) and len(received) == len(expected):
        return [_like(one, other) for one, other in zip(received, expected, strict=True)]
    if type(expected) not in (int, float) or type(received) not in (int, float, str):
        return received
    try:
        number = float(received.replace(",", "").replace("_", "")) if isinstance(received, str) else received
    except ValueError:
        return received
    return expected if number == expected else received


def plainly(value: Any) -> Any:
    """Normalize an answer: lowercase, with `-` and spaces as `_`; True differs from 1.

    Names lose their prefix (`self.`), their parentheses, and the variant of a collective (`all_gather_single`).
    """
    if isinstance(value, str):
        name = "_".join(value.lower().replace("-", " ").split()).split("(")[0].rsplit(".", 1)[-1]
        return match[1] if (match := _VARIANT.fullmatch(name)) else name
    if isinstance(value, list | tuple):
        return [plainly(item) for item in value]
    return (type(value).__name__, value)
