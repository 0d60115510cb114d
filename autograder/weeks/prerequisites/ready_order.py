"""The order in which gradients are complete, seen by hooks."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, trouble_in_call

WIDTH = 3


def expected(order: list[int]) -> list[int]:
    """Weights in the order of their first use, last first: then no later use can add to a gradient."""
    return list(dict.fromkeys(order))[::-1]


def _make(case: Case, rng: Random) -> Task:
    order = case["order"]
    weights = [torch.eye(WIDTH) * rng.randint(1, 3) for _ in range(max(order) + 1 + case.get("unused", 0))]
    args = [weights, order, torch.ones(2, WIDTH)]
    return Task(call="ready_order", ranks=1, inputs=[[args]], expected=[expected(order)], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    if numbers_of(reply) not in (task.expected[0], tuple(task.expected[0])):
        return f"For the order {case['order']}, {numbers_of(reply)!r} is not the order in which gradients are complete."
    return None


def _draw(rng: Random) -> list[Case]:
    shuffled = rng.sample(range(5), 5)
    return [{"order": shuffled, "unused": 1}, {"order": [shuffled[0], *shuffled[1:4], shuffled[0], shuffled[2]]}]


CHECK = Check(
    exercise="prerequisites.ready-order",
    points=1,
    names=("ready_order",),
    public=({"order": [0, 1, 2]}, {"order": [1, 0, 1], "unused": 1}),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    hints=(
        "A hook is a function that torch calls. Which method of a leaf calls it after the gradient was added?",
        "leaf.register_post_accumulate_grad_hook(function) calls function(leaf). Each leaf needs its own number: a "
        "lambda in a loop sees the loop's last value, unless you bind it as a default argument.",
        "leaf.register_post_accumulate_grad_hook(lambda _, number=number: ready.append(number)).",
    ),
)
