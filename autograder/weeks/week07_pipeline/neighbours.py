"""Send activations right and gradients left at the same time, as in the middle of 1F1B, without a deadlock."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble, whole_numbers, wrong_value
from autograder.checks.groups import (
    LARGE,
    POINT_TO_POINT,
    dtype_of,
    each_bill,
    group_task,
    members_of,
    shape_of,
    working,
)
from autograder.checks.order import matched_by_tags

DUE = ("the activation from the previous rank", "the gradient from the next rank")


def _make_neighbours(case: Case, rng: Random) -> Task:
    members = members_of(case)
    first, last = members[0], members[-1]

    def tensors(nobody: int) -> dict[int | None, Any]:
        """One tensor for each rank except `nobody`, which has no neighbor on that side and gets None."""
        drawn = {rank: whole_numbers(rng, case["numbers"], dtype_of(case)).reshape(shape_of(case)) for rank in members}
        return {**drawn, nobody: None}

    activations, gradients = tensors(last), tensors(first)
    before = dict(zip(members, [None, *members], strict=False))
    behind = dict(zip(members, [*members[1:], None], strict=True))
    num_bytes = case["numbers"] * dtype_of(case).itemsize
    return group_task(
        case,
        "exchange_with_neighbours",
        {rank: [activations[rank], gradients[rank]] for rank in members},
        {rank: (activations.get(before[rank]), gradients.get(behind[rank])) for rank in members},
        keeps_inputs=True,
        sent_bytes={rank: num_bytes * ((rank != first) + (rank != last)) for rank in members},
        messages=2,
    )


def _judge_neighbours(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply, POINT_TO_POINT):
        return problem
    for rank in working(task):
        reported = reply.ranks[rank]
        value = reported.get("value")
        pair = value.get("plain") if isinstance(value, dict) else None
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            return f"Rank {rank} must return two things: {DUE[0]}, and {DUE[1]}."
        for received, expected, what in zip(pair, task.expected[rank], DUE, strict=True):
            if expected is None and received is not None:
                return f"Rank {rank} has no neighbor on that side: return None for {what}."
            if expected is not None and (problem := wrong_value(rank, received, expected, what)):
                return problem
        if problem := touched_input(rank, reported, task):
            return problem
    return matched_by_tags(reply) or each_bill(task, reply, "one tensor to each neighbor")


def _draw_neighbours(rng: Random) -> list[Case]:
    return [
        {"ranks": 2, "numbers": rng.randint(1025, 4000)},
        {"ranks": 3, "numbers": 2 * rng.randint(2, 30), "matrix": True},
        {"ranks": 4, "numbers": LARGE + rng.randint(0, 99), "dtype": "bfloat16"},
        {"ranks": 4, "numbers": rng.randint(1, 9), "subgroup": [0, 2, 3]},
    ]


CHECK = Check(
    exercise="week07.neighbours",
    points=2,
    names=("exchange_with_neighbours",),
    public=(
        {"ranks": 2, "numbers": 4},
        {"ranks": 4, "numbers": 1024, "dtype": "bfloat16"},
        {"ranks": 5, "numbers": 6, "subgroup": [1, 3]},  # without the first and the last rank, and not adjacent
    ),
    draw=_draw_neighbours,
    make=_make_neighbours,
    judge=_judge_neighbours,
    masked=("shardlab.collectives", "shardlab.pipeline_parallel.mailbox"),
    hints=(
        "Start all messages before you wait for any. Receive into an empty tensor of the same shape and dtype.",
        "isend and irecv return a handle immediately; or collect P2POps in a list and pass it to batch_isend_irecv.",
        "Right neighbor: isend activation, irecv gradient. Left: isend gradient, irecv activation. Then wait for all.",
    ),
)
