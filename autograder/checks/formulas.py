"""Helpers for checks of formulas: one call per case, compared within rounding error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import torch

from autograder.checks.base import Case, Reply, Task, close, trouble

MOST_NUMBERS = 1000
COUNTS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
FORMULAS = ("shardlab.collectives", "shardlab.costs.traffic")  # masked: they contain the formulas that are asked for
Judging = Callable[[Case, Task, Reply], str | None]


def formula_task(call: str, names: tuple[str, ...], expected: Any) -> Any:
    def make(case: Case, rng: Random) -> Task:
        return Task(call=call, ranks=1, inputs=[[[case[name] for name in names]]], expected=[expected(case)], groups=[])

    return make


def value_of(reply: Reply) -> Any:
    value = _reported(reply).get("value", {})
    return value.get("plain") if isinstance(value, dict) else None


def numbers_of(reply: Reply) -> Any:
    """The returned value, with small tensors converted to Python numbers or lists, for checks that expect numbers."""
    return _without_tensors(value_of(reply))


def _without_tensors(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.numel() <= MOST_NUMBERS:
        return value.tolist()
    if isinstance(value, list | tuple):
        return type(value)(map(_without_tensors, value))
    if isinstance(value, dict):
        return {key: _without_tensors(item) for key, item in value.items()}
    return value


def _reported(reply: Reply) -> dict[str, Any]:
    answers = reply.ranks[0].get("answers")
    return answers[0] if isinstance(answers, list) and answers and isinstance(answers[0], dict) else {}


def trouble_in_call(reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    reported = _reported(reply)
    if "raised" in reported:
        problem = trouble(replace(reply, ranks=[reported]))
        return problem and problem.replace("Rank 0 raised", "The function raised")
    value = reported.get("value")
    if isinstance(value, dict) and "not_plain" in value:
        what = f"Your return value cannot be sent back: {value['not_plain']}."
        return f"{what} Return numbers, strings, tensors, or lists or dicts of them."
    return None


def shown(case: Case) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in case.items())


def judge_numbers(names: Sequence[str], relative: float = 1e-6, unit: str = "") -> Judging:
    """A judge for a list of numbers, one per name; its sentence names the first wrong one."""
    units = f", in {unit}" if unit else ""

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        if problem := trouble_in_call(reply):
            return problem
        received = numbers_of(reply)
        if not isinstance(received, list | tuple) or len(received) != len(names):
            return f"Return {COUNTS[len(names)]} numbers{units}: {'; '.join(names)}."
        for name, number, expected in zip(names, received, task.expected[0], strict=True):
            if not close(number, expected, relative):
                where = f"For ({shown(case)}) " if case else ""
                return f"{where}{number!r} is not {name}{units}."
        return None

    return judge
