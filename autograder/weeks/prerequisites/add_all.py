"""Add bfloat16 tensors without losing small numbers: add in float32, round once."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, wrong_value
from autograder.checks.formulas import trouble_in_call, value_of


def _make(case: Case, rng: Random) -> Task:
    large = torch.tensor([256.0 * rng.randint(1, 3) for _ in range(4)])
    small = [torch.tensor([float(rng.randint(0, 1)) for _ in range(4)]) for _ in range(case["tensors"] - 1)]
    parts = [part.bfloat16() for part in (large, *small)]
    total = torch.stack([part.float() for part in parts]).sum(0).bfloat16()
    return Task(call="add_all", ranks=1, inputs=[[[parts]]], expected=[total], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    problem = wrong_value(0, value_of(reply), task.expected[0], "the sum")
    return problem and f"With {case['tensors']} tensors: {problem.removeprefix('On rank 0, ')}"


CHECK = Check(
    exercise="prerequisites.add-all",
    points=1,
    names=("add_all",),
    public=({"tensors": 3}, {"tensors": 40}),
    draw=lambda rng: [{"tensors": rng.randint(30, 60)} for _ in range(2)],
    make=_make,
    judge=_judge,
    program="without_ranks",
    hints=(
        "256 + 1 is 256 in bfloat16, however often you add. In which dtype must the sum be kept?",
        "Convert each part to float32 before you add it; convert the total back once, at the end.",
        "total = sum(part.float() for part in parts); return total.bfloat16().",
    ),
)
