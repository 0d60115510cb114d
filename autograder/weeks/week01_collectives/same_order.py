"""Loss and gradient averaged in the same order on every rank.

Means are compared with a tolerance of 1e-6 because a division may round.
"""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble, whole_numbers
from autograder.checks.groups import group_task, members_of, shape_of, sum_of, working


def _make_same_order(case: Case, rng: Random) -> Task:
    members = members_of(case)
    distinct = rng.sample(range(1, 9), len(members))  # no mean equals every rank's own loss
    losses = {rank: torch.tensor(float(loss)) for rank, loss in zip(members, distinct, strict=True)}
    gradients = {rank: whole_numbers(rng, case["numbers"]).reshape(shape_of(case)) for rank in members}
    means = (sum_of(losses) / len(members), sum_of(gradients) / len(members))
    args = {rank: [losses[rank], gradients[rank]] for rank in members}
    return group_task(case, "average_loss_and_gradient", args, dict.fromkeys(members, means), keeps_inputs=True)


def _judge_same_order(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank in working(task):
        reported = reply.ranks[rank]
        value = reported.get("value", {}).get("plain")
        if not isinstance(value, list | tuple) or len(value) != 2:
            return f"On rank {rank}, return two tensors: the mean loss and the mean gradient."
        for name, received, expected in zip(("loss", "gradient"), value, task.expected[rank], strict=True):
            if (
                not isinstance(received, torch.Tensor)
                or received.dtype != expected.dtype
                or received.shape != expected.shape
            ):
                return (
                    f"On rank {rank}, the mean {name} must be a tensor of shape {list(expected.shape)} and have the "
                    "dtype of the input."
                )
            if not torch.allclose(received, expected, rtol=1e-6, atol=1e-6):
                return f"On rank {rank}, the {name} is not the mean over the {len(working(task))} ranks of the group."
        if problem := touched_input(rank, reported, task):
            return problem
    return None


def _draw_same_order(rng: Random) -> list[Case]:
    return [
        {"ranks": 3, "numbers": 2 * rng.randint(2, 20), "matrix": True},
        {"ranks": 4, "numbers": rng.randint(2, 40), "subgroup": [1, 3]},
    ]


CHECK = Check(
    exercise="week01.same-order",
    points=1,
    names=("average_loss_and_gradient",),
    public=({"ranks": 2, "numbers": 6}, {"ranks": 4, "numbers": 5, "subgroup": [0, 2, 3]}),
    draw=_draw_same_order,
    make=_make_same_order,
    judge=_judge_same_order,
    hints=(
        "Every rank of the group, including rank 0, must make the same calls in the same order, on copies.",
        "Loss first or gradient first: choose one order for all ranks. A sum over the group is not yet a mean.",
        "For each of the two: clone, all_reduce over the group, divide by the size of the group.",
    ),
)
