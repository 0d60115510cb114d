"""Shared by week 5's checks: masked modules, random numbers, and comparing named tensors with one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import torch
from shardlab import tensor_parallel
from shardlab.costs.traffic import ring_all_reduce_bytes
from torch import Tensor

from autograder.checks.base import Case, Reply, Task, calls_of, size, touched_input, trouble, wrong_value
from autograder.checks.groups import working

OPERATORS_MASKED = ("shardlab.tensor_parallel", "shardlab.hybrid")
_GIVEN = {"__init__", "operators", "messages"}  # f and g, which students have written by then
_MODULES = sorted(path.stem for path in Path(str(tensor_parallel.__file__)).parent.glob("*.py"))
LAYERS_MASKED = (*(f"shardlab.tensor_parallel.{name}" for name in _MODULES if name not in _GIVEN), "shardlab.hybrid")
COSTS_MASKED = ("shardlab.collectives", "shardlab.costs", "shardlab.hybrid")

SLACK_BYTES = 16  # per rank: padding that makes a tensor divisible by the number of ranks


def normal(rng: Random, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers of this shape."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    return torch.randn(*shape, generator=generator, dtype=dtype)


def wrong_tensors(task: Task, reply: Reply, *, relative: float = 0.0) -> str | None:
    """Compare each rank's returned tuple with {name: tensor}, in order, and check that its inputs are unchanged.

    The message names the factor if a tensor is a multiple of the right one.
    """
    if problem := trouble(reply):
        return problem
    for rank in working(task):
        expected: Mapping[str, Tensor] = task.expected[rank]
        received = reply.ranks[rank].get("value", {}).get("plain")
        if not isinstance(received, list | tuple) or len(received) != len(expected):
            return f"Rank {rank} must return {len(expected)} tensors: {', '.join(expected)}."
        for one, (name, wanted) in zip(received, expected.items(), strict=True):
            if problem := wrong_value(rank, one, wanted, name, relative=relative):
                return problem + _multiple(one, wanted, len(working(task)))
        if problem := touched_input(rank, reply.ranks[rank], task):
            return problem
    return None


def _multiple(received: Any, wanted: Tensor, num_ranks: int) -> str:
    """A hint for a tensor that is wrong by a constant factor."""
    if not isinstance(received, Tensor) or received.shape != wanted.shape or not wanted.any():
        return ""
    a, b = received.double(), wanted.double()
    ratio = float((a * b).sum() / (b * b).sum())
    if not (abs(ratio - 1) > 1e-3 and abs(ratio) > 1e-3) or not (a - ratio * b).abs().max() <= 1e-4 * a.abs().max():
        return ""
    why = "Which sum is computed once too often?" if ratio > 1 else "Which rank's share is missing?"
    return f" It is {ratio:.4g} times the result of one process, with {num_ranks} ranks. {why}"


def all_reduce_bytes(num_ranks: int, *tensors: Tensor) -> float:
    """Bytes that a rank sends in ring all-reduces of these tensors."""
    return sum(ring_all_reduce_bytes(num_ranks, one.nbytes) for one in tensors)


def sent_too_much(task: Task, reply: Reply, most: float, why: str) -> str | None:
    """Report a rank whose calls, observed from outside, send more than `most` bytes, counted as rings."""
    for rank in working(task):
        mine = sum(call.sent_bytes for call in calls_of(reply, rank))
        if mine > most + SLACK_BYTES:
            return f"Right, but rank {rank} sends {size(mine)} where {size(most)} are enough: {why}."
    return None


def sent_too_little(task: Task, reply: Reply, least: float, why: str) -> str | None:
    """Report a rank that sends less than `least` bytes: the other ranks could not have its numbers without messages."""
    for rank in working(task):
        mine = sum(call.sent_bytes for call in calls_of(reply, rank))
        if mine < 0.98 * least:
            return f"Rank {rank} sends {size(mine)} where {size(least)} must be sent: {why}."
    return None


def group_size(case: Case) -> int:
    """The number of ranks in the group of a case."""
    return len(case.get("subgroup") or range(case["ranks"]))
