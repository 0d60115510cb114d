"""Checks of predictions about Megatron; the expected values are recorded in a run of the installed package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, shown, trouble_in_call
from autograder.checks.reading import is_same

FUNCTION = "predict_trace"
MOST_SHOWN = 120  # characters of a wrong prediction


def trace_check(
    exercise: str,
    recorded: Callable[[Case], dict[str, Any]],
    pointers: Mapping[str, str],
    *,
    public: Sequence[Case],
    draw: Callable[[Random], list[Case]],
    hints: tuple[str, ...],
    points: float = 2,
) -> Check:
    """The check of `predict_trace(**layout)`, which returns a dict with a prediction for each key of `pointers`.

    recorded: what the run shows for a layout, under the same keys. Each prediction is a part of the points. The run is
    asked only while judging, and if this machine cannot run Megatron it raises WorkerLost, which costs nobody a point.
    """
    arguments = tuple(public[0])

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        if problem := trouble_in_call(reply):
            return problem
        key, received = case["part"], numbers_of(reply)
        if not isinstance(received, dict):
            return f"{FUNCTION} must return a dict with the keys {', '.join(pointers)}."
        if received.get(key) is None:
            return f"Not answered yet: {key}."
        layout = {name: case[name] for name in arguments}
        if is_same(received[key], recorded(layout)[key]):
            return None
        given = repr(received[key])[:MOST_SHOWN]
        return f"For ({shown(layout)}) {key} = {given}, but Megatron did something else: {pointers[key]}."

    def each_part(layouts: Sequence[Case]) -> list[Case]:
        return [{"part": part, **layout} for part in pointers for layout in layouts]

    return Check(
        exercise=exercise,
        points=points,
        names=(FUNCTION,),
        public=tuple(each_part(public)),
        draw=lambda rng: each_part(draw(rng)),
        make=lambda case, rng: Task(
            call=FUNCTION, ranks=1, inputs=[[[case[name] for name in arguments]]], expected=[], groups=[]
        ),
        judge=judge,
        program="without_ranks",
        parts={part: 1 / len(pointers) for part in pointers},
        hints=hints,
    )
