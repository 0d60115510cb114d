"""Shared by the checks of formulas: one call a case, compared within a rounding error."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from autograder.checks.base import Answer, Case, Task, close, trouble

FORMULAS = ("shardlab.collectives", "shardlab.costs.traffic")  # a formula is asked for: these hold it


def formula_task(call: str, names: tuple[str, ...], expected: Any) -> Any:
    def make(case: Case, rng: Random) -> Task:
        return Task(call=call, ranks=1, inputs=[[[case[name] for name in names]]], expected=[expected(case)], groups=[])

    return make


def value_of(answer: Answer) -> Any:
    answers = answer.ranks[0].get("answers")
    value = answers[0].get("value", {}) if isinstance(answers, list) and answers else {}
    return value.get("plain") if isinstance(value, dict) else None


def failed(answer: Answer) -> str | None:
    if problem := trouble(answer):
        return problem
    answers = answer.ranks[0].get("answers")
    if isinstance(answers, list) and answers and "raised" in answers[0]:
        problem = trouble(replace(answer, ranks=[answers[0]]))
        return problem and problem.replace("Rank 0 raised", "The function raised")
    return None


def shown(case: Case) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in case.items())


def judge_pair(names: tuple[str, str], relative: float = 1e-6) -> Any:
    def judge(case: Case, task: Task, answer: Answer) -> str | None:
        if problem := failed(answer):
            return problem
        got = value_of(answer)
        if not isinstance(got, list | tuple) or len(got) != 2:
            return f"Return two numbers: {names[0]} and {names[1]}."
        for name, number, due in zip(names, got, task.expected[0], strict=True):
            if not close(number, due, relative):
                return (
                    f"For ({shown(case)}) {number!r} is not the {name}." if case else f"{number!r} is not the {name}."
                )
        return None

    return judge
