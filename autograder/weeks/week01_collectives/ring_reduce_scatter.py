"""A ring reduce-scatter from send and receive."""

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
    sum_of,
)


def _make_reduce_scatter(case: Case, rng: Random) -> Task:
    members = members_of(case)
    num = len(members)
    tensors = {rank: whole_numbers(rng, case["numbers"], dtype_of(case)) for rank in members}
    total = sum_of(tensors).tensor_split(num)
    sizes = [chunk.numel() * chunk.element_size() for chunk in total]
    return group_task(
        case,
        "ring_reduce_scatter",
        {rank: [[chunk.clone() for chunk in tensor.tensor_split(num)]] for rank, tensor in tensors.items()},
        {rank: total[place] for place, rank in enumerate(members)},
        keeps_inputs=True,
        sent_bytes={rank: sum(sizes) - sizes[place] for place, rank in enumerate(members)},
        messages=num - 1,
    )


def _judge_reduce_scatter(case: Case, task: Task, reply: Reply) -> str | None:
    return (
        trouble(reply, POINT_TO_POINT)
        or each_rank(task, reply, "the finished chunk")
        or each_bill(task, reply, "every chunk but its own once, (N-1)/N of S")
    )


def draw_ring(rng: Random) -> list[Case]:
    """One element (empty chunks), a remainder, a subgroup that divides the size, one rank, and a large tensor."""
    return [
        {"ranks": 3, "numbers": 1},
        {"ranks": 4, "numbers": 8 * rng.randint(3, 9) + 2, "dtype": "bfloat16"},
        {"ranks": 4, "numbers": 3 * rng.randint(8, 14), "subgroup": [0, 1, 3], "dtype": "float64"},
        {"ranks": 2, "numbers": rng.randint(2, 9), "subgroup": [1], "dtype": "int64"},
        {"ranks": 4, "numbers": LARGE + 4 * rng.randint(1, 24) + 3},
    ]


RING_PUBLIC = (
    {"ranks": 2, "numbers": 4},
    {"ranks": 3, "numbers": 7},
    {"ranks": 4, "numbers": 302, "subgroup": [1, 2, 3], "dtype": "bfloat16"},
    {"ranks": 1, "numbers": 3},
)


CHECK = Check(
    exercise="week01.ring-reduce-scatter",
    points=3,
    names=("ring_reduce_scatter",),
    public=RING_PUBLIC,
    draw=draw_ring,
    make=_make_reduce_scatter,
    judge=_judge_reduce_scatter,
    hints=(
        "Write down which chunk each rank sends in step 0 and step 1 for N=3.",
        "In step s rank r sends chunk (r - 1 - s) mod N and receives chunk (r - 2 - s) mod N.",
        "partial = copy of chunk r-1; N-1 times: send partial right, partial = received from the left + own.",
    ),
)
