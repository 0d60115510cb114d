"""Week 0: one all-reduce, to see that everything works."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble, whole_numbers, wrong_tensor


def _make(case: Case, rng: Random) -> Task:
    ranks, num = case["ranks"], case["numbers"]
    members = case.get("subgroup") or list(range(ranks))
    tensors = {rank: whole_numbers(rng, num) for rank in members}
    total = torch.stack(list(tensors.values())).sum(0)
    return Task(
        call="total_of",
        ranks=ranks,
        groups=[members],
        inputs=[{"args": [tensors[r]], "groups": {"group": 0}} if r in tensors else None for r in range(ranks)],
        expected=[total if rank in tensors else None for rank in range(ranks)],
        keeps_inputs=True,
    )


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank, expected in enumerate(task.expected):
        if expected is None:
            continue
        reported = reply.ranks[rank]
        if problem := wrong_tensor(rank, reported, expected, what="the total") or touched_input(rank, reported, task):
            return problem
    return None


def _draw(rng: Random) -> list[Case]:
    return [
        {"ranks": 3, "numbers": rng.randint(3, 50)},
        {"ranks": 4, "numbers": rng.randint(3, 50), "subgroup": [0, 2, 3]},
    ]


CHECK = Check(
    exercise="week00.first-all-reduce",
    points=1,
    names=("total_of",),
    public=({"ranks": 2, "numbers": 4}, {"ranks": 4, "numbers": 7, "subgroup": [1, 3]}),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=("shardlab.collectives",),
    hints=(
        "dist.all_reduce sums over the group you pass, and overwrites the tensor you pass.",
        "Work on tensor.clone(), and pass the group.",
        "total = tensor.clone(); dist.all_reduce(total, group=group); return total.",
    ),
)
