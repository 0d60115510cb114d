"""Keep the expected value, the received value and the input behind a sentence about a wrong value."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.difference import Difference, Wrong

MOST_INPUT = 8  # a longer input is not shown


@dataclass(frozen=True)
class Compared:
    """What one rank should have returned and what it returned; `given` is its input, or "" if that is long."""

    sentence: str  # the check's sentence about it
    difference: Difference
    given: str = ""

    @property
    def row(self) -> dict[str, str]:
        """The cells of a table by the names of their columns, without empty ones."""
        one = self.difference
        cells = {"rank": str(one.rank), "its input": self.given, "compared": one.what}
        cells |= {"expected": _written(one.expected), "received": _written(one.received)}
        return {name: value for name, value in cells.items() if value}


def comparing(check: Check, found: list[Compared]) -> Check:
    """The same check, which also appends to `found` the comparison behind each sentence that carries one."""

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        sentence = check.judge(case, task, reply)
        with suppress(Exception):  # a rank may report anything, and comparing must not break the check
            if isinstance(sentence, Wrong) and (compared := of_sentence(sentence, task)):
                found.append(compared)
        return sentence

    return replace(check, judge=judge)


def of_sentence(sentence: Wrong, task: Task) -> Compared | None:
    """The comparison that a sentence is about, or None if both values look the same when they are written."""
    one = sentence.difference
    if _written(one.expected) == _written(one.received):
        return None
    return Compared(str(sentence), one, _given(task, one.rank))


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _given(task: Task, rank: int) -> str:
    """The numbers of a rank's only tensor, if they are few."""
    args: list[Any] = list(task.inputs[rank]["args"])
    tensors = [one for one in args if isinstance(one, torch.Tensor)]
    if len(tensors) != 1 or tensors[0].numel() > MOST_INPUT:
        return ""
    return str([round(number, 4) for number in tensors[0].tolist()]) if tensors[0].dim() == 1 else ""
