"""An all-reduce over a binomial tree: sums go up to the group's first rank, then the total comes back down."""

from __future__ import annotations

from random import Random

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    calls_of,
    carried_too_little,
    carried_too_much,
    size,
    trouble,
    whole_numbers,
)
from autograder.checks.groups import (
    LARGE,
    POINT_TO_POINT,
    dtype_of,
    each_rank,
    group_task,
    members_of,
    shape_of,
    sum_of,
    working,
)


def receivers(place: int, num_ranks: int) -> list[int]:
    """Destinations of one rank, in order: its sum up, then the total down, the furthest (largest subtree) first."""
    distances = [1 << level for level in range((num_ranks - 1).bit_length())]
    up = [place - distance for distance in distances if place % (2 * distance) == distance]
    below = [distance for distance in distances if place % (2 * distance) == 0 and place + distance < num_ranks]
    return up + [place + distance for distance in reversed(below)]


def _make_tree(case: Case, rng: Random) -> Task:
    members = members_of(case)
    tensors = {rank: whole_numbers(rng, case["numbers"], dtype_of(case)).reshape(shape_of(case)) for rank in members}
    return group_task(
        case,
        "tree_all_reduce",
        {rank: [tensor] for rank, tensor in tensors.items()},
        dict.fromkeys(members, sum_of(tensors)),
        keeps_inputs=True,
        num_bytes=case["numbers"] * dtype_of(case).itemsize,
        receivers={
            rank: [members[peer] for peer in receivers(place, len(members))] for place, rank in enumerate(members)
        },
    )


def _judge_tree(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply, POINT_TO_POINT) or each_rank(task, reply, "the sum"):
        return problem
    num_bytes, total = task.facts["num_bytes"], 0
    for rank in working(task):
        expected = task.facts["receivers"][rank]
        messages = [call for call in calls_of(reply, rank) if call.kind == "send"]
        if [call.peer for call in messages] != expected:
            made = _to_whom([call.peer for call in messages])
            return f"Right on all ranks, but rank {rank} sends {made}; in the tree it sends {_to_whom(expected)}."
        if any(call.payload_bytes != num_bytes for call in messages):
            return f"Rank {rank} sends messages that are not {size(num_bytes)}, the size of the whole tensor."
        total += num_bytes * len(expected)
    return carried_too_little(reply, total) or carried_too_much(reply, total)


def _to_whom(peers: list[int | None]) -> str:
    return ", then ".join(f"to rank {peer}" for peer in peers) or "nothing"


def _draw_tree(rng: Random) -> list[Case]:
    """Two sizes that are not powers of two, one of them with three levels; a subgroup; one rank; a large tensor."""
    return [
        {"ranks": 3, "numbers": 1},
        {"ranks": 6, "numbers": 2 * rng.randint(9, 20), "dtype": "bfloat16", "matrix": True},
        {"ranks": 4, "numbers": rng.randint(8, 14), "subgroup": [1, 2, 3], "dtype": "float64"},
        {"ranks": 2, "numbers": rng.randint(2, 9), "subgroup": [1]},
        {"ranks": 4, "numbers": LARGE + rng.randint(0, 99)},
    ]


CHECK = Check(
    exercise="week01.tree-all-reduce",
    points=2,
    optional=True,
    names=("tree_all_reduce",),
    public=(
        {"ranks": 2, "numbers": 3},
        {"ranks": 4, "numbers": 6, "matrix": True},
        {"ranks": 6, "numbers": 5, "subgroup": [0, 1, 2, 4, 5], "dtype": "bfloat16"},
        {"ranks": 1, "numbers": 3},
    ),
    draw=_draw_tree,
    make=_make_tree,
    judge=_judge_tree,
    hints=(
        "Draw the tree for 4 ranks: who sends to whom, and when? With 5 ranks, some have no peer at that distance.",
        "Up, for distance = 1, 2, 4, …: a rank at an odd multiple of distance sends its sum to rank - distance and is "
        "done with this half. A rank at an even multiple receives from rank + distance, if that rank exists.",
        "Down: the same loop with the distances reversed and send and receive swapped. The furthest rank comes first.",
    ),
)
