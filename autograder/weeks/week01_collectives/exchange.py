"""Two ranks swap a tensor. Every rank has a partner, so there is no case with one rank."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task, trouble, whole_numbers
from autograder.checks.groups import (
    LARGE,
    POINT_TO_POINT,
    dtype_of,
    each_bill,
    each_rank,
    group_task,
    members_of,
    shape_of,
)


def _make_exchange(case: Case, rng: Random) -> Task:
    members = members_of(case)
    tensors = {rank: whole_numbers(rng, case["numbers"], dtype_of(case)).reshape(shape_of(case)) for rank in members}
    partner = {rank: members[place ^ 1] for place, rank in enumerate(members)}
    num_bytes = case["numbers"] * dtype_of(case).itemsize
    return group_task(
        case,
        "exchange",
        {rank: [tensor] for rank, tensor in tensors.items()},
        {rank: tensors[partner[rank]] for rank in members},
        keeps_inputs=True,
        sent_bytes=dict.fromkeys(members, num_bytes),
        messages=1,
    )


def _judge_exchange(case: Case, task: Task, reply: Reply) -> str | None:
    return (
        trouble(reply, POINT_TO_POINT)
        or each_rank(task, reply, "the tensor from the partner")
        or each_bill(task, reply, "one tensor to the partner")
    )


def _draw_exchange(rng: Random) -> list[Case]:
    return [
        {"ranks": 4, "numbers": LARGE + rng.randint(0, 99), "dtype": "bfloat16"},
        {"ranks": 4, "numbers": 2 * rng.randint(2, 9), "subgroup": [1, 2], "dtype": "float64", "matrix": True},
    ]


CHECK = Check(
    exercise="week01.exchange",
    points=2,
    names=("exchange",),
    public=(
        {"ranks": 2, "numbers": 4},
        {"ranks": 4, "numbers": 1024},
        {"ranks": 4, "numbers": 6, "subgroup": [1, 3], "dtype": "bfloat16", "matrix": True},
    ),
    draw=_draw_exchange,
    make=_make_exchange,
    judge=_judge_exchange,
    hints=(
        "Write down the calls of both partners side by side: each send needs a matching receive on the other side.",
        "isend returns at once. Call wait() on its handle, and do not change the tensor before that.",
        "work = isend to the partner; recv from the partner; work.wait().",
    ),
)
