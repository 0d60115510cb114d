"""Two copies of every stage: adding the gradients of both copies of each stage."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, whole_numbers
from autograder.checks.groups import group_task, members_of
from autograder.weeks.week13_dualpipe._two_tensors import judge_two


def _make_copies(case: Case, rng: Random) -> Task:
    members = members_of(case)
    last = len(members) - 1
    stages = [case["numbers"] + case.get("more_a_stage", 0) * stage for stage in range(last + 1)]
    mine = [[whole_numbers(rng, stages[stage]) for stage in (at, last - at)] for at in range(last + 1)]
    return group_task(
        case,
        "add_copies",
        {rank: [mine[at]] for at, rank in enumerate(members)},
        {rank: _sums(mine[at], mine[last - at]) for at, rank in enumerate(members)},
        keeps_inputs=True,
        sent_bytes={rank: 4 * sum(map(len, mine[at])) for at, rank in enumerate(members)},
        messages=2,
    )


def _sums(mine: list[torch.Tensor], theirs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The sums of both stages; the other rank holds the same two stages in the opposite order."""
    return [mine[0] + theirs[1], mine[1] + theirs[0]]


def _judge_copies(case: Case, task: Task, reply: Reply) -> str | None:
    names = ("the gradient of stage r", "the gradient of stage P-1-r")
    return judge_two(task, reply, names, "its two gradients once, to the rank with the other copies")


def _draw_copies(rng: Random) -> list[Case]:
    return [
        {"ranks": 2, "numbers": rng.randint(3, 40)},
        {"ranks": 4, "numbers": rng.randint(3, 40), "more_a_stage": rng.randint(1, 3)},
        {"ranks": 6, "numbers": rng.randint(3, 40)},
        {"ranks": 4, "numbers": 30_000 + rng.randint(1, 99)},
    ]


CHECK = Check(
    exercise="week13.copies",
    points=2,
    names=("add_copies",),
    public=(
        {"ranks": 2, "numbers": 4},
        {"ranks": 4, "numbers": 6, "more_a_stage": 2},
        {"ranks": 4, "numbers": 6, "more_a_stage": 1, "subgroup": [1, 3]},
    ),
    draw=_draw_copies,
    make=_make_copies,
    judge=_judge_copies,
    masked=("shardlab.collectives", "shardlab.pipeline_parallel.execution"),
    hints=(
        "Which rank holds the other copy of stage r? And where in its list?",
        "Rank P-1-r has them in the opposite order: your first gradient belongs to its second.",
        "Send yours in your order, receive into [like the second, like the first], then add crosswise.",
    ),
)
