"""Top-k with error feedback: few numbers are sent, and what was left out is added to the next step's gradient.

Means are compared with one process, within 1e-4 of the largest number. At most 8 bytes per kept number may be sent.
"""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs import compression
from torch import Tensor

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    calls_of,
    carried_too_much,
    size,
    touched_input,
    trouble,
    wrong_value,
)
from autograder.checks.groups import LARGE, group_task, members_of, working
from autograder.weeks.week02_ddp.average_gradients import MASKED

ONE_STEP, FEEDBACK = "one step", "error feedback"
TOLERANCE = 1e-4


def expected_means(by_rank: list[list[Tensor]], num_kept: int) -> list[Tensor]:
    """The mean of each step, where every rank adds what it has left out so far (1809.07599, algorithm 1)."""
    left_out = [torch.zeros_like(gradients[0]) for gradients in by_rank]
    means = []
    for step in range(len(by_rank[0])):
        total = torch.zeros_like(left_out[0])
        for place, gradients in enumerate(by_rank):
            whole = gradients[step] + left_out[place]
            kept = torch.zeros_like(whole)
            largest = whole.abs().topk(num_kept).indices
            kept[largest] = whole[largest]
            left_out[place] = whole - kept
            total += kept
        means.append(total / len(by_rank))
    return means


def _make_top_k(case: Case, rng: Random) -> Task:
    members, shape = members_of(case), (case["steps"], case["numbers"])
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    drawn = {rank: list(torch.randn(shape, generator=generator).unbind()) for rank in members}
    message = compression.top_k_bytes(case["num_kept"])
    return group_task(
        case,
        "compressed_means",
        {rank: [[gradient.clone() for gradient in mine], case["num_kept"]] for rank, mine in drawn.items()},
        dict.fromkeys(members, expected_means(list(drawn.values()), case["num_kept"])),
        keeps_inputs=True,
        sent_bytes=case["steps"] * compression.sent_bytes(len(members), message),
    )


def _judge_top_k(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    expected_bytes = task.facts["sent_bytes"]
    for rank in working(task):
        reported, expected = reply.ranks[rank], task.expected[rank]
        value = reported.get("value", {}).get("plain")
        if not isinstance(value, list | tuple) or len(value) != len(expected):
            return f"On rank {rank}, return a list of {len(expected)} tensors, the mean of each step."
        for step, mean in enumerate(expected):
            if problem := wrong_value(rank, value[step], mean, f"the mean of step {step}", relative=TOLERANCE):
                return problem
        if problem := touched_input(rank, reported, task):
            return problem
        claimed = sum(call.sent_bytes for call in calls_of(reply, rank))
        if claimed > expected_bytes:
            enough = f"{size(expected_bytes)} are enough: 8 bytes per number"
            return f"Right, but rank {rank} sends {size(claimed)} where {enough}."
    return carried_too_much(reply, int(expected_bytes * len(working(task))))


def _draw_top_k(rng: Random) -> list[Case]:
    one = [
        {"ranks": 2, "numbers": rng.randint(200, 300), "num_kept": rng.randint(5, 10), "steps": 1},
        {"ranks": 4, "numbers": rng.randint(20, 30), "num_kept": 11, "steps": 1, "subgroup": [1, 2, 3]},
    ]
    feedback = [
        {"ranks": 2, "numbers": rng.randint(20, 40), "num_kept": rng.randint(3, 6), "steps": 6},
        {"ranks": 3, "numbers": rng.randint(8, 12), "num_kept": 1, "steps": 4},
        {"ranks": 2, "numbers": 7, "num_kept": 7, "steps": 2},
        {"ranks": 4, "numbers": LARGE + rng.randint(0, 99), "num_kept": 600, "steps": 3},
    ]
    return [case | {"part": ONE_STEP} for case in one] + [case | {"part": FEEDBACK} for case in feedback]


CHECK = Check(
    exercise="week02.top-k",
    points=3,
    optional=True,
    names=("compressed_means",),
    public=(
        {"ranks": 2, "numbers": 100, "num_kept": 5, "steps": 1, "part": ONE_STEP},
        {"ranks": 4, "numbers": 20, "num_kept": 2, "steps": 5, "subgroup": [1, 3], "part": FEEDBACK},
    ),
    draw=_draw_top_k,
    make=_make_top_k,
    judge=_judge_top_k,
    masked=MASKED,
    parts={ONE_STEP: 0.5, FEEDBACK: 0.5},
    timeout=10.0,
    hints=(
        "Step 0 tests what is chosen and sent: ranks keep different positions, so send positions as well as values. "
        "The later steps test what becomes of the rest.",
        "All-gather int32 positions and float32 values, add the values at their positions, divide by N. index_add_ "
        "adds where two ranks chose the same position; total[where] = what loses one of them.",
        "whole = gradient + left_out; choose from whole; left_out = whole, with zeros where you have sent.",
    ),
)
