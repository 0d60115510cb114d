"""Shared by the two bills of this week: four numbers, for stages 0, 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Callable

from autograder.checks.base import Case, Reply, Task, close
from autograder.checks.formulas import shown, trouble_in_call, value_of

STAGES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")


def judge_stages(unit: str, relative: float) -> Callable[[Case, Task, Reply], str | None]:
    """A list of four numbers; the sentence names the first stage that is not right."""

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        if problem := trouble_in_call(reply):
            return problem
        received = value_of(reply)
        if not isinstance(received, list | tuple) or len(received) != len(STAGES):
            return f"Return four numbers, in {unit}: for {', '.join(STAGES)}."
        for stage, number, expected in zip(STAGES, received, task.expected[0], strict=True):
            if not close(number, expected, relative):
                where = f"For ({shown(case)}) " if case else ""
                return f"{where}{number!r} is not what a rank holds with {stage}, in {unit}."
        return None

    return judge
