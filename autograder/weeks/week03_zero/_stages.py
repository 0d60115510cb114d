"""Shared by the two bills of this week: four numbers, for stages 0, 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Callable

from autograder.checks.base import Answer, Case, Task, close
from autograder.checks.formulas import failed, shown, value_of

STAGES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")


def judge_stages(unit: str, relative: float) -> Callable[[Case, Task, Answer], str | None]:
    """A list of four numbers; the sentence names the first stage that is not right."""

    def judge(case: Case, task: Task, answer: Answer) -> str | None:
        if problem := failed(answer):
            return problem
        got = value_of(answer)
        if not isinstance(got, list | tuple) or len(got) != len(STAGES):
            return f"Return four numbers, in {unit}: for {', '.join(STAGES)}."
        for stage, number, due in zip(STAGES, got, task.expected[0], strict=True):
            if not close(number, due, relative):
                where = f"For ({shown(case)}) " if case else ""
                return f"{where}{number!r} is not what a rank holds with {stage}, in {unit}."
        return None

    return judge
