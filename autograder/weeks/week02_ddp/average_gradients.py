"""The mean of every gradient over the group. Inputs are multiples of N, so their means are whole numbers.

The tolerance is 1e-6 of the largest number, or 1% in bfloat16, because a division may round.
"""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs import traffic
from torch import Tensor

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    calls_of,
    carried_too_little,
    carried_too_much,
    size,
    touched_input,
    trouble,
    whole_numbers,
    wrong_value,
)
from autograder.checks.groups import dtype_of, group_task, members_of, working

MASKED = ("shardlab.collectives", "shardlab.data_parallel")
LARGE = 20_000  # size of the smaller of the two large gradients: enough to show up in the loopback's byte counters


def tolerance(case: Case) -> float:
    """Tolerance relative to the largest number. A bfloat16 has eight bits of precision."""
    return 1e-2 if case.get("dtype") == "bfloat16" else 1e-6


def drawn_gradients(rng: Random, case: Case, num_ranks: int) -> list[Tensor]:
    """A vector, a matrix and a single number."""
    sizes, shapes = (case["numbers"], 2 * case["numbers"], 1), ((-1,), (2, -1), (1,))
    drawn = (whole_numbers(rng, num, dtype_of(case)) * num_ranks for num in sizes)
    return [numbers.reshape(shape) for numbers, shape in zip(drawn, shapes, strict=True)]


def _make_average(case: Case, rng: Random) -> Task:
    members = members_of(case)
    mine = {rank: drawn_gradients(rng, case, len(members)) for rank in members}
    means = [torch.stack(same).sum(0) / len(members) for same in zip(*mine.values(), strict=True)]
    return group_task(
        case,
        "average_gradients",
        {rank: [gradients] for rank, gradients in mine.items()},
        dict.fromkeys(members, means),
        keeps_inputs=True,
        all_bytes=sum(mean.numel() * mean.element_size() for mean in means),
    )


def _judge_average(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank in working(task):
        reported, expected = reply.ranks[rank], task.expected[rank]
        if problem := wrong_means(rank, reported, expected, case) or touched_input(rank, reported, task):
            return problem
    return too_many_bytes(task, reply)


def wrong_means(rank: int, reported: dict, expected: list, case: Case) -> str | None:
    """Compare a list of tensors with the means; an entry must be None where None is expected."""
    value = reported.get("value", {})
    received = value.get("plain") if isinstance(value, dict) else None
    if not isinstance(received, list | tuple) or len(received) != len(expected):
        return f"On rank {rank}, return a list of {len(expected)} gradients, one for each input."
    num_ranks = len(members_of(case))
    for place, (mine, mean) in enumerate(zip(received, expected, strict=True)):
        if mean is None and mine is not None:
            return f"On rank {rank}, gradient {place} must be None: no rank has used that parameter."
        if mean is None:
            continue
        if problem := wrong_value(rank, mine, mean, f"the mean of gradient {place}", relative=tolerance(case)):
            is_sum = wrong_value(rank, mine, mean * num_ranks, relative=tolerance(case)) is None
            told = f"On rank {rank}, gradient {place} is {num_ranks} times the mean: divide by all ranks of the group."
            return told if is_sum else problem
    return None


def too_many_bytes(task: Task, reply: Reply, slack_bytes: int = 0) -> str | None:
    """No rank may send more than all-reduces of all gradients do; the bytes on the loopback must agree."""
    ranks = working(task)
    expected = traffic.ring_all_reduce_bytes(len(ranks), task.facts["all_bytes"])
    for rank in ranks:
        claimed = sum(call.sent_bytes for call in calls_of(reply, rank))
        if claimed > 1.001 * expected + slack_bytes:
            most = f"an all-reduce sends {size(expected)}, 2(N-1)/N of S"
            return f"Right, but rank {rank} sends {size(claimed)} where {most}."
    total = int(expected * len(ranks))
    return carried_too_little(reply, total // 2) or carried_too_much(reply, total + slack_bytes * len(ranks))


def _draw_average(rng: Random) -> list[Case]:
    return [
        {"ranks": 4, "numbers": rng.randint(3, 40), "subgroup": [0, 2, 3], "dtype": "float64"},
        {"ranks": 2, "numbers": rng.randint(3, 20), "subgroup": [1]},
        {"ranks": 4, "numbers": LARGE + rng.randint(1, 99)},
    ]


CHECK = Check(
    exercise="week02.average-gradients",
    points=2,
    names=("average_gradients",),
    public=(
        {"ranks": 2, "numbers": 4},
        {"ranks": 3, "numbers": 7},
        {"ranks": 4, "numbers": 5, "subgroup": [1, 3], "dtype": "bfloat16"},
        {"ranks": 1, "numbers": 3},
    ),
    draw=_draw_average,
    make=_make_average,
    judge=_judge_average,
    masked=MASKED,
    hints=(
        "dist.all_reduce computes a sum, in place. What do you have to do before and after?",
        "Clone each gradient, all-reduce the clone over the group, divide by the size of the group.",
        "for gradient in gradients: mean = gradient.clone(); all_reduce(mean, group=group); mean /= N; append it",
    ),
)
