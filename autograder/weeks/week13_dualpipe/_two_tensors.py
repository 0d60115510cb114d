"""Shared by the week's exercises on ranks: an answer of two tensors, and the messages that it took."""

from __future__ import annotations

from autograder.checks.base import Answer, Task, touched_input, trouble, wrong_value
from autograder.checks.groups import each_bill, working
from autograder.checks.order import matched_by_tags


def judge_two(task: Task, answer: Answer, names: tuple[str, str], formula: str) -> str | None:
    """Both tensors right on every rank, inputs untouched, each rank's bytes sent once."""
    if problem := trouble(answer):
        return problem
    for rank in working(task):
        came = answer.ranks[rank]
        value = came.get("value", {}).get("plain")
        if not isinstance(value, list | tuple) or len(value) != 2:
            return f"On rank {rank}, return two tensors: {names[0]}, then {names[1]}."
        for name, got, due in zip(names, value, task.expected[rank], strict=True):
            if problem := wrong_value(rank, got, due, name):
                return problem
        if problem := touched_input(rank, came, task):
            return problem
    return matched_by_tags(answer) or each_bill(task, answer, formula)
