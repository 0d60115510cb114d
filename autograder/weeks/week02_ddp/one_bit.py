"""1-bit SGD: a message has one sign bit per number and one mean per sign; the ranks' messages are averaged."""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs import compression
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, calls_of, carried_too_much, size, trouble
from autograder.checks.groups import LARGE, each_rank, group_task, members_of, working
from autograder.weeks.week02_ddp.average_gradients import MASKED

TOLERANCE = 1e-4  # relative to the largest number: means of many numbers, added in any order


def rebuilt(gradient: Tensor) -> Tensor:
    """The decoded gradient: each number becomes the mean of those of its sign (Seide et al., Interspeech 2014)."""
    positive = gradient >= 0
    means = [gradient[chosen].sum() / max(1, int(chosen.sum())) for chosen in (positive, ~positive)]
    return torch.where(positive, *means)


def _make_one_bit(case: Case, rng: Random) -> Task:
    members = members_of(case)
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    drawn = {rank: torch.randn(case["numbers"], generator=generator) for rank in members}
    if sign := case.get("one_sign"):  # one rank has no numbers of the other sign; their mean would be 0 / 0
        drawn[members[-1]] = sign * (0.1 + drawn[members[-1]].abs())
    drawn[members[0]][0] = 0.0
    message = compression.one_bit_bytes(case["numbers"])
    mean = torch.stack([rebuilt(gradient) for gradient in drawn.values()]).mean(0)
    return group_task(
        case,
        "one_bit_mean",
        {rank: [gradient] for rank, gradient in drawn.items()},
        dict.fromkeys(members, mean),
        keeps_inputs=True,
        sent_bytes=compression.sent_bytes(len(members), message),
    )


def _judge_one_bit(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply) or each_rank(task, reply, "the mean", relative=TOLERANCE):
        return problem
    most = task.facts["sent_bytes"]
    for rank in working(task):
        claimed = sum(call.sent_bytes for call in calls_of(reply, rank))
        if claimed > most:
            enough = f"{size(most)} are enough: n/8 bytes of signs, rounded up, and 8 of means, to each other rank"
            return f"Right, but rank {rank} sends {size(claimed)} where {enough}."
    return carried_too_much(reply, int(most * len(working(task))))


def _draw_one_bit(rng: Random) -> list[Case]:
    """Signs that fill whole bytes and some that do not; a rank with one sign; a subgroup; one rank; a large tensor."""
    return [
        {"ranks": 2, "numbers": 8 * rng.randint(20, 40), "one_sign": 1},
        {"ranks": 3, "numbers": 8 * rng.randint(20, 40) + rng.randint(1, 7)},
        {"ranks": 4, "numbers": rng.randint(161, 167), "subgroup": [0, 2, 3], "one_sign": -1},
        {"ranks": 2, "numbers": rng.randint(20, 40), "subgroup": [1]},
        {"ranks": 4, "numbers": LARGE + 8 * rng.randint(1, 12) + 3},
    ]


CHECK = Check(
    exercise="week02.one-bit",
    points=2,
    optional=True,
    names=("one_bit_mean",),
    public=(
        {"ranks": 2, "numbers": 160},
        {"ranks": 4, "numbers": 203, "subgroup": [1, 3], "one_sign": 1},
        {"ranks": 1, "numbers": 21},
    ),
    draw=_draw_one_bit,
    make=_make_one_bit,
    judge=_judge_one_bit,
    masked=MASKED,
    hints=(
        "A rank's message has one byte for eight signs, and two float32 means, which view(torch.uint8) turns into "
        "bytes. All messages have the same length, so one all-gather is enough.",
        "Pad the signs to a multiple of 8 with torch.nn.functional.pad, view them as (-1, 8), multiply by 1, 2, 4, "
        "…, 128, and sum each row. To decode, a sign is set where (byte & power) is not 0; cut off the padding.",
        "Put the two means first, then the signs: message[:8].view(torch.float32) are the means. "
        "torch.where(signs, up, down) is the gradient of that rank. A rank may have no numbers of one sign: divide by "
        "at least 1.",
    ),
)
