"""Helpers for checks that run on ranks: groups, inputs, sums, and each rank's bill."""

from __future__ import annotations

from typing import Any

import torch

from autograder.checks.base import (
    Case,
    Reply,
    Task,
    carried_too_little,
    carried_too_much,
    sent,
    size,
    touched_input,
    wrong_tensor,
)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64, "int64": torch.int64}
LARGE = 60_000  # numbers: enough to distinguish a ring from an all-gather by byte counts
POINT_TO_POINT = ("send", "recv")


def members_of(case: Case) -> list[int]:
    return case.get("subgroup") or list(range(case["ranks"]))


def dtype_of(case: Case) -> torch.dtype:
    return DTYPES[case.get("dtype", "float32")]


def shape_of(case: Case) -> tuple[int, ...]:
    return (case["numbers"] // 2, 2) if case.get("matrix") else (case["numbers"],)


def group_task(
    case: Case,
    call: str,
    args: dict[int, list],
    expected: dict[int, Any],
    *,
    reads_calls: bool = True,
    keeps_inputs: bool = False,
    keys: dict[str, Any] | None = None,
    **facts: Any,
) -> Task:
    """A task in which the members of one group work and the other ranks of the world only watch."""
    ranks = range(case["ranks"])
    return Task(
        call=call,
        ranks=case["ranks"],
        groups=[case.get("subgroup")],  # None is the world, which exists: a new group takes a fifth of a small case
        inputs=[{"args": args[rank], "groups": {"group": 0}} if rank in args else None for rank in ranks],
        expected=[expected.get(rank) for rank in ranks],
        facts=facts,
        reads_calls=reads_calls,
        keys=keys,
        keeps_inputs=keeps_inputs,
    )


def working(task: Task) -> list[int]:
    return [rank for rank, mine in enumerate(task.inputs) if mine is not None]


def sum_of(tensors: dict[int, torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(tensors.values())).sum(0).to(next(iter(tensors.values())).dtype)


def each_rank(task: Task, reply: Reply, what: str, *, relative: float = 0.0) -> str | None:
    """Check every rank's tensor and that inputs are unchanged; `relative` is a fraction of the largest number."""
    for rank in working(task):
        reported = reply.ranks[rank]
        wrong = wrong_tensor(rank, reported, task.expected[rank], what=what, relative=relative)
        if problem := wrong or touched_input(rank, reported, task):
            return problem
    return None


def each_bill(task: Task, reply: Reply, formula: str) -> str | None:
    """Check that each rank sends exactly the expected bytes, in no more than the expected number of messages."""
    expected = task.facts["sent_bytes"]
    for rank in working(task):
        messages = sent(reply, rank)
        if sum(messages) != expected[rank]:
            more = "Do you send whole tensors?" if sum(messages) > expected[rank] else "Do you wait for every isend?"
            return (
                f"Right on all {len(expected)} ranks, but rank {rank} sent {size(sum(messages))}; "
                f"it must send {size(expected[rank])}, {formula}. {more}"
            )
        if len(messages) > task.facts["messages"]:
            return f"Rank {rank} sent {len(messages)} messages, but {task.facts['messages']} are enough."
    total = sum(expected.values())
    return carried_too_little(reply, total) or carried_too_much(reply, total)
