"""Means of gradients that some ranks do not have: None counts as zeros, and the mean is None where no rank has one."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble
from autograder.checks.groups import group_task, members_of, working
from autograder.weeks.week02_ddp.average_gradients import LARGE, MASKED, drawn_gradients, too_many_bytes, wrong_means

FLAG_BYTES = 4096  # ranks may exchange which parameters they used in any small message


def _make_unused(case: Case, rng: Random) -> Task:
    members = members_of(case)
    full = {rank: drawn_gradients(rng, case, len(members)) for rank in members}
    means: list = [torch.stack(same).sum(0) / len(members) for same in zip(*full.values(), strict=True)]
    args = {}
    for place, rank in enumerate(members):
        missing = [number for number in range(len(means)) if place in case["missing"][number]]
        parameters = [torch.ones_like(mean) for mean in means]
        args[rank] = [[None if n in missing else g for n, g in enumerate(full[rank])], parameters]
        for number in missing:
            means[number] = means[number] - full[rank][number] / len(members)
    expected = [None if len(gone) == len(members) else mean for gone, mean in zip(case["missing"], means, strict=True)]
    num_bytes = sum(mean.numel() * mean.element_size() for mean in means)
    return group_task(
        case, "average_used", args, dict.fromkeys(members, expected), keeps_inputs=True, all_bytes=num_bytes
    )


def _judge_unused(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank in working(task):
        reported = reply.ranks[rank]
        if problem := wrong_means(rank, reported, task.expected[rank], case) or touched_input(rank, reported, task):
            return problem
    return too_many_bytes(task, reply, FLAG_BYTES)


def _draw_unused(rng: Random) -> list[Case]:
    return [
        {"ranks": 4, "numbers": rng.randint(3, 20), "missing": [[0, 2], [0, 1, 2], [1]], "subgroup": [0, 1, 3]},
        {"ranks": 2, "numbers": rng.randint(3, 20), "missing": [[], [], []], "dtype": "float64"},
        {"ranks": 2, "numbers": rng.randint(3, 20), "missing": [[0], [], []], "subgroup": [1]},
        {"ranks": 3, "numbers": LARGE + rng.randint(1, 99), "missing": [[1], [0, 2], [0, 1, 2]]},
    ]


CHECK = Check(
    exercise="week02.unused",
    points=2,
    names=("average_used",),
    public=(
        {"ranks": 2, "numbers": 4, "missing": [[0], [1], []]},
        {"ranks": 4, "numbers": 900, "missing": [[0, 1, 2], [0], [1, 2]], "subgroup": [1, 2, 3]},
        {"ranks": 1, "numbers": 3, "missing": [[0], [], []]},
    ),
    draw=_draw_unused,
    make=_make_unused,
    judge=_judge_unused,
    masked=MASKED,
    hints=(
        "Every rank must make the same calls. What can a rank send for a gradient that it does not have?",
        "Zeros in its place, shaped like parameters[number]. But a mean of zeros is not None: did any rank use it?",
        "All-reduce (MAX) one flag per parameter as well; where it is 0 on all ranks, return None.",
    ),
)
