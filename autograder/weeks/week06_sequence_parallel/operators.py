"""The two operators of sequence parallelism, forward and backward, each the other's adjoint.

Inputs are whole numbers, so sums are exact in every order. Outside the operators the batch comes first, so the tensors
they receive are transposed and not contiguous in memory.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import torch
from shardlab.costs.traffic import ring_all_gather_bytes, ring_reduce_scatter_bytes
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, calls_of, size, touched_input, trouble, wrong_value
from autograder.checks.base import whole_numbers as drawn
from autograder.checks.groups import dtype_of, group_task, members_of, working
from autograder.weeks.week06_sequence_parallel._shared import MASKED, times_as_long

WHAT = (
    "the output of gather_sequence",
    "the gradient of gather_sequence",
    "the output of scatter_sequence",
    "the gradient of scatter_sequence",
)


def _make(case: Case, rng: Random) -> Task:
    """A rank's part of a sequence has `rows` positions. `more` positions are left over if the split is uneven."""
    members, dtype = members_of(case), dtype_of(case)
    length = len(members) * case["rows"] + case.get("more", 0)
    rest = (case["batch"], case["width"])

    def numbers(*shape: int) -> dict[int, Tensor]:
        return {rank: drawn(rng, torch.Size(shape).numel(), dtype).reshape(shape) for rank in members}

    parts, part_gradients = numbers(case["rows"], *rest), numbers(case["rows"], *rest)
    wholes, whole_gradients = numbers(case["batch"], length, case["width"]), numbers(case["batch"], length, rest[1])
    args = {rank: [parts[rank], whole_gradients[rank], wholes[rank], part_gradients[rank]] for rank in members}
    expected = {} if case.get("more") else _expected(parts, whole_gradients, wholes, part_gradients)
    once = len(members) * parts[members[0]].nbytes
    each = ring_all_gather_bytes(len(members), once) + ring_reduce_scatter_bytes(len(members), once)
    task = group_task(case, "there_and_back", args, expected, keeps_inputs=True, sent_bytes=2 * each, length=length)
    return replace(task, returns_inputs=True)  # on one rank the sum is the input itself


def _expected(parts: dict, whole_gradients: dict, wholes: dict, part_gradients: dict) -> dict[int, list[Tensor]]:
    """For each rank, both outputs and both gradients. The gather's gradient is summed, the sum's is gathered."""
    gathered, spread = (torch.cat(list(one.values())) for one in (parts, part_gradients))
    sums = [torch.stack(list(one.values())).sum(0).transpose(0, 1) for one in (whole_gradients, wholes)]
    cut = [one.to(gathered.dtype).chunk(len(parts)) for one in sums]
    return {rank: [gathered, cut[0][at], cut[1][at], spread.transpose(0, 1)] for at, rank in enumerate(parts)}


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if case.get("more"):
        return _not_refused(task, reply)
    if problem := trouble(reply):
        return problem
    for rank in working(task):
        reported = reply.ranks[rank]
        value = reported.get("value")
        received = value.get("plain") if isinstance(value, dict) else None
        if not isinstance(received, list | tuple) or len(received) != len(WHAT):
            return f"Rank {rank} must return four tensors: {', '.join(WHAT)}."
        for what, one, right in zip(WHAT, received, task.expected[rank], strict=True):
            if problem := wrong_value(rank, one, right, what):
                return f"{problem}{_why(one, right)}"
        if problem := touched_input(rank, {**reported, "shares_input": False}, task) or _bill(task, reply, rank):
            return problem
    return None


def _why(received: object, expected: Tensor) -> str:
    ratio = times_as_long(received, expected)
    if ratio and abs(ratio - 1) > 0.01:
        return f" All are {ratio:.4g} times what they should be."
    return " Every rank used the gathered numbers: which ranks have gradients for yours?"


def _bill(task: Task, reply: Reply, rank: int) -> str | None:
    mine, expected = sum(call.sent_bytes for call in calls_of(reply, rank)), task.facts["sent_bytes"]
    why = "two all-gathers and two reduce-scatters"
    if mine > expected + 64:
        return f"Right, but rank {rank} sends {size(mine)} where {size(expected)} are enough: {why}."
    if mine < 0.98 * expected:
        return f"Rank {rank} sends {size(mine)} where {size(expected)} must be sent: {why}."
    return None


def _not_refused(task: Task, reply: Reply) -> str | None:
    """Check that an uneven length raises a ValueError with both numbers on every rank, and that nothing was sent."""
    length, num_ranks = task.facts["length"], len(working(task))
    asked = f"A sequence of {length} cannot be split over {num_ranks} ranks"
    for rank in working(task):
        error = str(reply.ranks[rank].get("raised", "")).strip().rsplit("\n", 1)[-1]
        if error.startswith("NotImplementedError") or "refused" in reply.ranks[rank]:
            return trouble(reply)
        if not error.startswith("ValueError"):
            came = f"{error[:120]}" if error else "no error"
            return f"{asked}: raise a ValueError that says so, on every rank. Rank {rank} raised: {came}."
        if not {str(length), str(num_ranks)} <= set(re.findall(r"\d+", error)):
            return f"{asked}: name both numbers in the ValueError. Rank {rank} says: {error[:120]}"
        if calls_of(reply, rank):
            return f"{asked}: rank {rank} says so, but only after it has sent something. Raise the error first."
    return None


def _draw(rng: Random) -> list[Case]:
    """Three ranks; a part of the world in bfloat16; one rank; a length with a remainder; a length that is too short."""

    def case(ranks: int, **more: object) -> Case:
        sizes = {"ranks": ranks, "rows": rng.randint(2, 5), "batch": rng.randint(2, 3), "width": rng.randint(3, 6)}
        return sizes | more

    return [
        case(3, dtype="float64"),
        case(4, subgroup=[0, 2, 3], dtype="bfloat16"),
        case(2, subgroup=[1]),
        case(3, more=rng.randint(1, 2)),
        case(4, subgroup=[1, 2, 3], rows=0, more=2),
    ]


CHECK = Check(
    exercise="week06.operators",
    points=2,
    names=("there_and_back",),
    public=(
        {"ranks": 2, "rows": 1, "batch": 2, "width": 2},
        {"ranks": 4, "rows": 2, "batch": 2, "width": 3, "subgroup": [1, 2, 3], "dtype": "bfloat16"},
        {"ranks": 2, "rows": 1, "batch": 1, "width": 2, "more": 1},
        {"ranks": 1, "rows": 2, "batch": 2, "width": 2},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=15.0,
    hints=(
        "Draw two ranks. Rank 0 uses everything it gathered from rank 1, so it has a gradient for it. Where must that "
        "gradient go?",
        "gather_sequence: all-gather forward, and in the backward the sum over ranks, of which a rank keeps ____. "
        "scatter_sequence is the same two the other way round.",
        "part = x.new_empty(len(x) // size, *x.shape[1:]); dist.reduce_scatter_single(part, x.contiguous(), "
        "group=group); before that: if len(x) % size: raise ValueError(…) with both numbers.",
    ),
)
