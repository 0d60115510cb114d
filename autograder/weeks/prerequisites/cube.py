"""The backward of an autograd Function."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, wrong_value
from autograder.checks.formulas import trouble_in_call, value_of


def _make(case: Case, rng: Random) -> Task:
    x, upstream = (torch.tensor([float(rng.randint(-9, 9)) for _ in range(case["numbers"])]) for _ in range(2))
    expected = x**3, 3 * x**2 * upstream
    return Task(call="cube_and_gradient", ranks=1, inputs=[[[x, upstream]]], expected=[expected], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received = value_of(reply)
    if not isinstance(received, list | tuple) or len(received) != 2:
        return "Keep the given return line: it returns the cube and the gradient."
    parts = zip(("the cube", "the gradient of x"), received, task.expected[0], strict=True)
    found = (wrong_value(0, value, expected, what) for what, value, expected in parts)
    return next((problem.removeprefix("On rank 0, ") for problem in found if problem), None)


CHECK = Check(
    exercise="prerequisites.cube",
    points=1,
    names=("cube_and_gradient",),
    public=({"numbers": 1}, {"numbers": 5}),
    draw=lambda rng: [{"numbers": rng.randint(2, 40)} for _ in range(2)],
    make=_make,
    judge=_judge,
    program="without_ranks",
    hints=(
        "backward receives the gradient of the loss for the output, and returns the one for the input.",
        "The derivative of x³ is 3x². Where does the gradient that backward receives come in?",
        "(x,) = context.saved_tensors; return 3 * x**2 * gradient.",
    ),
)
