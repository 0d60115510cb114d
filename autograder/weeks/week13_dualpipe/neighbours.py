"""Two messages of the same shape between two neighbors, distinguished only by their order."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task, whole_numbers
from autograder.checks.groups import dtype_of, group_task, members_of
from autograder.weeks.week13_dualpipe._two_tensors import judge_two


def _make_neighbours(case: Case, rng: Random) -> Task:
    members = members_of(case)
    pairs = {rank: [whole_numbers(rng, case["numbers"], dtype_of(case)) for _ in range(2)] for rank in members}
    partner = {rank: members[at ^ 1] for at, rank in enumerate(members)}
    num_bytes = 2 * case["numbers"] * dtype_of(case).itemsize
    return group_task(
        case,
        "swap_with_neighbour",
        pairs,
        {rank: pairs[partner[rank]] for rank in members},
        keeps_inputs=True,
        sent_bytes=dict.fromkeys(members, num_bytes),
        messages=2,
    )


def _judge_neighbours(case: Case, task: Task, reply: Reply) -> str | None:
    names = ("the received activation", "the received gradient")
    return judge_two(task, reply, names, "one activation and one gradient")


def _draw_neighbours(rng: Random) -> list[Case]:
    return [
        {"ranks": 2, "numbers": rng.randint(2, 40)},
        {"ranks": 2, "numbers": 30_000 + rng.randint(1, 99)},
    ]


CHECK = Check(
    exercise="week13.neighbours",
    points=2,
    names=("swap_with_neighbour",),
    public=(
        {"ranks": 2, "numbers": 4},
        {"ranks": 4, "numbers": 6, "dtype": "bfloat16"},
        {"ranks": 4, "numbers": 6, "subgroup": [1, 2]},
    ),
    draw=_draw_neighbours,
    make=_make_neighbours,
    judge=_judge_neighbours,
    hints=(
        "List the four messages: what does each rank send first, and what does the other rank receive it as?",
        "The k-th message that a rank sends is the k-th that the other receives: use the same order on both.",
        "On both ranks, put the activation first and the gradient second, both in the sends and in the receives.",
    ),
)
