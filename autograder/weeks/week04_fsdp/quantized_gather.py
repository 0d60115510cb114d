"""An all-gather of 8-bit codes, one scale per block: bounded error, counted bytes, the same numbers on all ranks."""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, calls_of, size, touched_input, trouble
from autograder.checks.groups import group_task, members_of, working
from autograder.checks.shards import MASKED

LARGEST = 127


def _drawn(rng: Random, case: Case) -> Tensor:
    """Normal numbers of a different magnitude in each block; with one scale for all, most would be rounded to 0."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    values = torch.randn(case["numbers"], generator=generator)
    for place, block in enumerate(values.split(case["block"])):
        block.mul_(0.0 if case.get("zeros") and place % 3 == 1 else 10.0 ** (2 - place % 6))
    return values


def _bounds(values: Tensor, block: int) -> Tensor:
    """The largest error allowed for each number: half a scale, plus float32 rounding."""
    largest = torch.cat([part.abs().max().expand(len(part)) for part in values.split(block)])
    return largest / LARGEST / 2 + 1e-6 * largest


def _make(case: Case, rng: Random) -> Task:
    members, block = members_of(case), case["block"]
    shards = {rank: _drawn(rng, case) for rank in members}
    whole = torch.cat(list(shards.values()))
    num_blocks = -(-case["numbers"] // block)
    return group_task(
        case,
        "quantized_all_gather",
        {rank: [shards[rank], block] for rank in members},
        dict.fromkeys(members, whole),
        keeps_inputs=True,
        bounds=torch.cat([_bounds(shards[rank], block) for rank in members]),
        sent_bytes=(len(members) - 1) * (case["numbers"] + 4 * num_blocks),
    )


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    first = None
    for rank in working(task):
        reported, expected = reply.ranks[rank], task.expected[rank]
        received = reported.get("value", {}).get("plain")
        if problem := _wrong(rank, received, expected, task.facts["bounds"]) or touched_input(rank, reported, task):
            return problem
        first = received if first is None else first
        if not torch.equal(received, first):
            return f"Rank {rank} gets different numbers than rank {working(task)[0]}: they would train two models."
        mine = sum(call.sent_bytes for call in calls_of(reply, rank))
        if mine != task.facts["sent_bytes"]:
            return (
                f"Rank {rank} sends {size(mine)} where {size(task.facts['sent_bytes'])} are expected: one byte per "
                "number and 4 bytes per block to each other rank."
            )
    return None


def _wrong(rank: int, received: object, expected: Tensor, bounds: Tensor) -> str | None:
    if not isinstance(received, Tensor) or received.dtype != expected.dtype or received.shape != expected.shape:
        return (
            f"On rank {rank}, return one float32 vector of {expected.numel()} numbers, all ranks' shards in rank order."
        )
    wrong = ~((received - expected).abs() <= bounds)  # so that NaN is wrong
    if wrong.any():
        index = int(wrong.nonzero()[0])
        return (
            f"On rank {rank}, number {index} is {received[index].item():.6g} instead of {expected[index].item():.6g}: "
            f"it is off by more than half of its block's scale, {bounds[index].item():.3g}."
        )
    return None


def _draw(rng: Random) -> list[Case]:
    block = rng.choice([16, 32, 64])
    return [
        {"ranks": 2, "numbers": block * rng.randint(3, 6), "block": block},
        {"ranks": 3, "numbers": block * rng.randint(3, 6) + rng.randint(1, block - 1), "block": block, "zeros": True},
        {"ranks": 4, "numbers": rng.randint(300, 400), "block": 256, "subgroup": [1, 2, 3]},
        {"ranks": 2, "numbers": rng.randint(2, block - 1), "block": block},
        {"ranks": 2, "numbers": rng.randint(2, 3 * block), "block": block, "subgroup": [1]},
    ]


CHECK = Check(
    exercise="week04.quantized-gather",
    points=3,
    names=("quantized_all_gather",),
    public=(
        {"ranks": 2, "numbers": 8, "block": 4},
        {"ranks": 4, "numbers": 600, "block": 256, "zeros": True, "subgroup": [0, 1, 3]},
        {"ranks": 1, "numbers": 6, "block": 4},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    hints=(
        "A block's scale is its largest absolute value over 127. A code is the number over the scale, rounded to int8.",
        "Pad to whole blocks to compute; trim the codes to the shard's length before you send. Do not divide by a "
        "scale of zero: clamp it.",
        "Every rank decodes every message, even its own. Codes and scales, viewed as torch.uint8, fit in one message.",
    ),
)
