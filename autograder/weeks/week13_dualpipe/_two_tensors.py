"""Shared by the week's exercises on ranks: an answer of two tensors, and the messages that it sent."""

from __future__ import annotations

from autograder.checks.base import Reply, Task, touched_input, trouble, wrong_value
from autograder.checks.groups import each_bill, working
from autograder.checks.order import matched_by_tags


def judge_two(task: Task, reply: Reply, names: tuple[str, str], formula: str) -> str | None:
    """Checks that both tensors are right on every rank, inputs unchanged, and each rank's bytes sent once."""
    if problem := trouble(reply):
        return problem
    for rank in working(task):
        reported = reply.ranks[rank]
        value = reported.get("value", {}).get("plain")
        if not isinstance(value, list | tuple) or len(value) != 2:
            return f"On rank {rank}, return two tensors: {names[0]}, then {names[1]}."
        for name, received, expected in zip(names, value, task.expected[rank], strict=True):
            if problem := wrong_value(rank, received, expected, name):
                return problem
        if problem := touched_input(rank, reported, task):
            return problem
    return matched_by_tags(reply) or each_bill(task, reply, formula)
