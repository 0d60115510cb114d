"""Gradients of several microbatches, accumulated by one backward per microbatch."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, wrong_value
from autograder.checks.formulas import trouble_in_call, value_of

ROWS, COLUMNS = 4, 2  # powers of two, so that every mean is exact


def _make(case: Case, rng: Random) -> Task:
    def whole(*shape: int) -> torch.Tensor:
        return torch.tensor([float(rng.randint(-4, 4)) for _ in range(shape[0] * shape[1])]).view(shape)

    weight, batches = whole(3, COLUMNS), [whole(ROWS, 3) for _ in range(case["microbatches"])]
    leaf = weight.clone().requires_grad_()
    (torch.cat(batches) @ leaf).square().mean().backward()
    args = [weight, batches]
    return Task(call="accumulated_gradient", ranks=1, inputs=[[args]], expected=[leaf.grad], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    problem = wrong_value(0, value_of(reply), task.expected[0], "the gradient", relative=1e-6)
    return problem and f"With {case['microbatches']} microbatches: {problem.removeprefix('On rank 0, ')}"


CHECK = Check(
    exercise="prerequisites.accumulate",
    points=1,
    names=("accumulated_gradient",),
    public=({"microbatches": 1}, {"microbatches": 4}),
    draw=lambda rng: [{"microbatches": rng.choice((2, 8))}, {"microbatches": rng.randint(3, 7)}],
    make=_make,
    judge=_judge,
    program="without_ranks",
    hints=(
        "backward() adds to .grad. Is the sum of the microbatches' gradients the gradient of the mean?",
        "Divide each microbatch's loss by the number of microbatches before its backward.",
        "for x in batches: ((x @ leaf).square().mean() / len(batches)).backward(); then return leaf.grad.",
    ),
)
