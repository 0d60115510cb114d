"""Keep the expected number, the received number and the input behind a sentence about wrong numbers."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from autograder.checks.base import Case, Check, Reply, Task

MOST_INPUT = 8  # a longer input is not shown
_NUMBER = re.compile(r"On rank (\d+), \d+ of (\d+) numbers of .+ (?:is|are) wrong: number (\d+) is (\S+)\.$")
_PROPERTY = re.compile(r"On rank (\d+), .+ has (shape|dtype) (.+), expected (.+)\.$")


@dataclass(frozen=True)
class Compared:
    """What one rank should have returned and what it returned; `given` is its input, or "" if that is long."""

    sentence: str  # the check's sentence about it
    rank: int
    what: str  # number 3, shape or dtype
    expected: str
    received: str
    given: str = ""


def comparing(check: Check, found: list[Compared]) -> Check:
    """The same check, which also appends to `found` the comparison behind each sentence that names a number."""

    def judge(case: Case, task: Task, reply: Reply) -> str | None:
        sentence = check.judge(case, task, reply)
        with suppress(Exception):  # a rank may report anything, and comparing must not break the check
            if sentence and (compared := of_sentence(sentence, task)):
                found.append(compared)
        return sentence

    return replace(check, judge=judge)


def of_sentence(sentence: str, task: Task) -> Compared | None:
    """The comparison that a sentence is about, or None if it is about something else or the task cannot tell."""
    if match := _PROPERTY.match(sentence):
        rank, what, received, expected = match.groups()
        return Compared(sentence, int(rank), what, expected, received, _given(task, int(rank)))
    if (match := _NUMBER.match(sentence)) is None:
        return None
    rank, count, place = (int(match[group]) for group in (1, 2, 3))
    wanted = task.expected[rank]
    if not isinstance(wanted, torch.Tensor) or wanted.numel() != count:
        return None
    expected = f"{wanted.flatten()[place].item():g}"
    if expected == match[4]:
        return None  # the sentence is about another tensor, or both numbers look the same
    return Compared(sentence, rank, f"number {place}", expected, match[4], _given(task, rank))


def _given(task: Task, rank: int) -> str:
    """The numbers of a rank's only tensor, if they are few."""
    args: list[Any] = list(task.inputs[rank]["args"])
    tensors = [one for one in args if isinstance(one, torch.Tensor)]
    if len(tensors) != 1 or tensors[0].numel() > MOST_INPUT:
        return ""
    return str([round(number, 4) for number in tensors[0].tolist()]) if tensors[0].dim() == 1 else ""
