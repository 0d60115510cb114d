"""Gradients that DDP never sees: weight gradients computed outside autograd, and an average that relies on a hook.

Groups have two or four members, so that means of whole numbers are exact.
"""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs import traffic

from autograder.checks.base import Case, Check, Reply, Task, calls_of, carried_too_little, size, trouble, whole_numbers
from autograder.checks.groups import each_rank, group_task, members_of, sum_of, working

ROWS = 3


def _make_hooks(case: Case, rng: Random) -> Task:
    columns, members = case["numbers"] // 2, members_of(case)
    weight = whole_numbers(rng, case["numbers"]).reshape(2, columns)
    args, sums = {}, {}
    for rank in members:
        inputs = [whole_numbers(rng, ROWS * 2).reshape(ROWS, 2) for _ in range(case["microbatches"])]
        gradients = [whole_numbers(rng, ROWS * columns).reshape(ROWS, columns) for _ in inputs]
        args[rank] = [weight, inputs, gradients]
        sums[rank] = torch.stack([x.T @ g for x, g in zip(inputs, gradients, strict=True)]).sum(0)
    mean = sum_of(sums) / len(members)
    num_bytes = 4 * case["numbers"]
    return group_task(
        case, "weight_gradient", args, dict.fromkeys(members, mean), keeps_inputs=True, num_bytes=num_bytes
    )


def _judge_hooks(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply) or each_rank(task, reply, "the averaged gradient"):
        return problem
    num_bytes = task.facts["num_bytes"]
    most = traffic.ring_all_reduce_bytes(len(working(task)), num_bytes)
    for rank in working(task):
        sent_bytes = sum(call.sent_bytes for call in calls_of(reply, rank))
        if sent_bytes > 1.01 * most:
            return (
                f"Right on all ranks, but rank {rank} sends {size(sent_bytes)}. One all-reduce of the "
                f"gradient sends only {size(most)}: average once, after the last W."
            )
    return carried_too_little(reply, num_bytes)


def _draw_hooks(rng: Random) -> list[Case]:
    return [
        {"ranks": 2, "numbers": 2 * rng.randint(2, 9), "microbatches": 1},
        {"ranks": 2, "numbers": 2 * rng.randint(2, 9), "microbatches": rng.randint(3, 5)},
        {"ranks": 4, "numbers": 2 * rng.randint(100, 900), "microbatches": 3},
    ]


CHECK = Check(
    exercise="week08.hooks",
    points=2,
    names=("weight_gradient",),
    public=(
        {"ranks": 2, "numbers": 8, "microbatches": 2},
        {"ranks": 4, "numbers": 8, "microbatches": 2},
        {"ranks": 3, "numbers": 8, "microbatches": 2, "subgroup": [0, 2]},
    ),
    draw=_draw_hooks,
    make=_make_hooks,
    judge=_judge_hooks,
    masked=("shardlab.collectives", "shardlab.pipeline_parallel.execution"),
    hints=(
        "Print weight.grad on both ranks. Are they equal, and what would have made them equal?",
        "Autograd calls the hook after it has added to .grad itself. Here the code never calls autograd.",
        "Sum x.T @ g over the microbatches, then all_reduce over the group, then divide by the size of the group.",
    ),
)
