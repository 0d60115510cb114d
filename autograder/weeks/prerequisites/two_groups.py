"""Two groups made on every rank in the same order; each rank sums over its own."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble, wrong_tensor


def _make(case: Case, rng: Random) -> Task:
    ranks = case["ranks"]
    tensors = [torch.tensor([float(rng.randrange(1, 1 << 20))]) for _ in range(ranks)]
    expected = [torch.stack(tensors[rank % 2 :: 2]).sum(0) for rank in range(ranks)]
    inputs = [{"args": [tensor], "groups": {}} for tensor in tensors]
    return Task(
        call="sum_over_parity",
        ranks=ranks,
        groups=[],
        inputs=inputs,
        expected=expected,
        keeps_inputs=True,
        returns_inputs=True,  # a group of one rank may return its own number
    )


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    what = "the sum over even ranks", "the sum over odd ranks"
    for rank, expected in enumerate(task.expected):
        reported = reply.ranks[rank]
        if problem := wrong_tensor(rank, reported, expected, what=what[rank % 2]):
            return problem
        if problem := touched_input(rank, {**reported, "shares_input": False}, task):
            return problem
    return None


CHECK = Check(
    exercise="prerequisites.two-groups",
    points=1,
    names=("sum_over_parity",),
    public=({"ranks": 2}, {"ranks": 4}),
    draw=lambda rng: [{"ranks": 3}, {"ranks": rng.choice((5, 6))}],
    make=_make,
    judge=_judge,
    makes_groups=True,
    timeout=15.0,
    hints=(
        "dist.new_group is a collective call: which ranks must call it, members or all?",
        "Every rank makes both groups, even ranks first, and uses the one that it is in.",
        "groups = [dist.new_group(list(range(first, size, 2))) for first in (0, 1)]; all_reduce with groups[rank % 2].",
    ),
)
