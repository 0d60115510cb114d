"""Helpers for checks of sharding: tensors with a model's shapes, concatenated, padded and cut into equal slices."""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs.memory.states import shard_elements
from shardlab.data_parallel.flat import end_to_end
from torch import Tensor

from autograder.checks.base import (
    Case,
    Reply,
    Task,
    calls_of,
    carried_too_little,
    carried_too_much,
    size,
    whole_numbers,
)
from autograder.checks.groups import dtype_of, working

MASKED = ("shardlab.data_parallel", "shardlab.mesh.gradient_norm", "shardlab.costs.memory.states")
TABLES_MASKED = (  # for exercises that ask for bytes, which these modules compute
    "shardlab.costs",
    "shardlab.data_parallel",
)


def shapes_of(case: Case) -> list[list[int]]:
    """The shapes of a matrix and two vectors that together have the case's number of elements."""
    rows, rest = divmod(case["numbers"] // 2, 4)
    rest += case["numbers"] - case["numbers"] // 2
    return [[rows, 4], [rest // 3], [rest - rest // 3]]


def drawn(case: Case, rng: Random) -> list[Tensor]:
    """Random whole numbers in these shapes, so that sums over ranks are exact in every dtype."""
    shapes = shapes_of(case)
    return [whole_numbers(rng, torch.Size(shape).numel(), dtype_of(case)).reshape(shape) for shape in shapes]


def rows_of(rng: Random, num_rows: int, width: int) -> torch.Tensor:
    """Normally distributed inputs of one rank, [num_rows, width]."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    return torch.randn(num_rows, width, generator=generator)


def padded(tensors: list[Tensor], num_ranks: int) -> Tensor:
    """Concatenate the tensors and pad with zeros to a multiple of `num_ranks`."""
    return end_to_end(tensors, shard_elements(sum(tensor.numel() for tensor in tensors), num_ranks)[1])


def slices(tensors: list[Tensor], num_ranks: int) -> list[Tensor]:
    """One slice per rank."""
    return list(padded(tensors, num_ranks).chunk(num_ranks))


def sent_otherwise(task: Task, reply: Reply, expected: float, why: str) -> str | None:
    """Report a rank whose calls, counted as rings, send more than `expected` bytes or less than half of that.

    If the task's packets are not read, this uses the kernel's byte count for all ranks together.
    """
    ranks = working(task)
    if not task.reads_calls:
        total = int(expected * len(ranks))
        problem = carried_too_little(reply, int(0.98 * total)) or carried_too_much(reply, total)
        return problem and f"{problem} Needed: {why}."
    for rank in ranks:
        mine = sum(call.sent_bytes for call in calls_of(reply, rank))
        if mine > expected + 64:
            return f"Rank {rank} sends {size(mine)}, but {size(expected)} are enough, {why}."
        if mine < 0.5 * expected:
            return f"Rank {rank} sends {size(mine)}, but {size(expected)} are needed, {why}."
    return None
