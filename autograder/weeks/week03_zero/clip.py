"""Clipping by the norm of all ranks' slices together. Tolerance: 1e-5, or the rounding of bfloat16."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, calls_of, close, size, trouble, wrong_value
from autograder.checks.groups import dtype_of, group_task, members_of, working
from autograder.checks.shards import MASKED

MOST_BYTES = 128  # a number or two per slice; the slices themselves are longer


def _make(case: Case, rng: Random) -> Task:
    members = members_of(case)
    shards = {rank: _some_slices(case, rng) for rank in members}
    if case.get("by_hand"):
        shards = {rank: [torch.tensor([number, 0.0])] for rank, number in zip(members, (3.0, 4.0), strict=True)}
    if case.get("empty"):
        shards[members[-1]] = []
    together = torch.cat([shard.double() for mine in shards.values() for shard in mine])
    norm = float(together.norm())
    max_norm = case["share"] * (norm or 1.0)
    scale = min(1.0, case["share"])
    return group_task(
        case,
        "clip_slices",
        {rank: [shards[rank], max_norm] for rank in members},
        {rank: [(shard.double() * scale).to(shard.dtype) for shard in shards[rank]] for rank in members},
        norm=norm,
    )


def _some_slices(case: Case, rng: Random) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    factor = 0.0 if case.get("zero") else rng.uniform(0.5, 3)
    sizes = [case["numbers"], rng.randint(1, 50)]
    return [(factor * torch.randn(num, generator=generator)).to(dtype_of(case)) for num in sizes]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    wanted = task.facts["norm"]
    relative = 2.0**-7 if dtype_of(case) is torch.bfloat16 else 1e-5
    for rank in working(task):
        reported = reply.ranks[rank]
        norm = reported.get("value", {}).get("plain")
        norm = norm.item() if isinstance(norm, torch.Tensor) and norm.numel() == 1 else norm
        if not (close(norm, wanted, 1e-4) or (wanted == 0 and norm == 0)):
            return f"Rank {rank} returns {norm!r}, but on every rank the norm of all slices together is {wanted:.6g}."
        args = reported.get("args")
        received = args[0] if isinstance(args, list | tuple) and args and isinstance(args[0], list | tuple) else []
        if len(received) != len(task.expected[rank]):
            return f"Rank {rank} no longer has the same list of slices. Scale the slices in place."
        for place, (one, expected) in enumerate(zip(received, task.expected[rank], strict=True)):
            if problem := wrong_value(rank, one, expected, f"slice {place}", relative=relative):
                return problem
        if (mine := sum(call.sent_bytes for call in calls_of(reply, rank))) > MOST_BYTES:
            return f"Rank {rank} sends {size(mine)}. How little do the other ranks need to know about your slices?"
    return None


def _draw(rng: Random) -> list[Case]:
    return [
        {"ranks": 4, "numbers": rng.randint(200, 900), "share": rng.uniform(0.1, 0.5)},
        {"ranks": 4, "numbers": rng.randint(200, 900), "share": rng.uniform(1.5, 3.0)},  # nothing to clip
        {"ranks": 4, "numbers": rng.randint(3000, 5000), "share": 0.25, "subgroup": [1, 2], "dtype": "bfloat16"},
        {"ranks": 2, "numbers": rng.randint(5, 50), "share": rng.uniform(0.1, 0.5), "subgroup": [1]},
    ]


CHECK = Check(
    exercise="week03.clip",
    points=2,
    names=("clip_slices",),
    public=(
        {"ranks": 2, "numbers": 2, "share": 0.5, "by_hand": True},
        {"ranks": 3, "numbers": 300, "share": 0.5, "empty": True},
        {"ranks": 4, "numbers": 4000, "share": 2.0, "subgroup": [1, 3], "dtype": "bfloat16"},
        {"ranks": 2, "numbers": 4, "share": 0.5, "zero": True},
        {"ranks": 1, "numbers": 3, "share": 0.5},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    hints=(
        "With a norm of 3 on one rank and 4 on the other, the norm of the whole is not 3, 4 or 7.",
        "Squares add up over ranks, norms do not: all-reduce the float32 sum of squares, then take the root.",
        "Every rank must call the all-reduce, even without slices. Scale by min(1, max_norm / (norm + 1e-6)) in place.",
    ),
)
