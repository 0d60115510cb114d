"""A ring all-gather, and the all-reduce built from both halves."""

from __future__ import annotations

from random import Random

from shardlab.costs import traffic

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    carried_too_little,
    carried_too_much,
    sent,
    size,
    trouble,
    whole_numbers,
    wrong_value,
)
from autograder.checks.groups import (
    POINT_TO_POINT,
    dtype_of,
    each_rank,
    group_task,
    members_of,
    shape_of,
    sum_of,
    working,
)
from autograder.weeks.week01_collectives.ring_reduce_scatter import RING_PUBLIC, draw_ring


def _make_all_reduce(case: Case, rng: Random) -> Task:
    if case.get("part") == "all-gather":
        return _make_all_gather(case, rng)
    members = members_of(case)
    shape = shape_of(case)
    tensors = {rank: whole_numbers(rng, case["numbers"], dtype_of(case)).reshape(shape) for rank in members}
    total = sum_of(tensors)
    width = dtype_of(case).itemsize
    expected = {
        rank: width * traffic.ring_sent_elements(case["numbers"], len(members), place)
        for place, rank in enumerate(members)
    }
    return group_task(
        case,
        "ring_all_reduce",
        {rank: [tensor] for rank, tensor in tensors.items()},
        dict.fromkeys(members, total),
        keeps_inputs=True,
        sent_bytes=expected,
        messages=2 * (len(members) - 1),
    )


def _make_all_gather(case: Case, rng: Random) -> Task:
    members = members_of(case)
    sizes = rng.sample(range(1, case["numbers"] + 1), len(members))
    if "empty" in case:
        sizes[case["empty"]] = 0
    chunks = [whole_numbers(rng, num, dtype_of(case)) for num in sizes]
    width = dtype_of(case).itemsize
    return group_task(
        case,
        "ring_all_gather",
        {rank: [chunks[place], sizes] for place, rank in enumerate(members)},
        dict.fromkeys(members, chunks),
        most_bytes=width * sum(sizes),
        messages=len(members) - 1,
    )


def _judge_all_reduce(case: Case, task: Task, reply: Reply) -> str | None:
    if case.get("part") == "all-gather":
        return trouble(reply, POINT_TO_POINT) or _judge_gathered(task, reply)
    return (
        trouble(reply, POINT_TO_POINT) or each_rank(task, reply, "the sum") or _total_bill(task, reply, "2(N-1)/N of S")
    )


def _judge_gathered(task: Task, reply: Reply) -> str | None:
    for rank in working(task):
        value = reply.ranks[rank].get("value", {}).get("plain")
        expected = task.expected[rank]
        if not isinstance(value, list | tuple) or len(value) != len(expected):
            return (
                f"On rank {rank}, ring_all_gather() must return a list of {len(expected)} tensors, one for each rank."
            )
        for place, chunk in enumerate(expected):
            if problem := wrong_value(rank, value[place], chunk, f"chunk {place}"):
                return problem
        if sum(sent(reply, rank)) > task.facts["most_bytes"]:
            return f"Rank {rank} sends more than all chunks together: it needs to send each chunk only once."
    return None


def _total_bill(task: Task, reply: Reply, formula: str) -> str | None:
    """Compare the bytes per rank, with slack because students may number chunks differently, and the exact total."""
    expected = task.facts["sent_bytes"]
    total = sum(expected.values())
    slack = 2 * (max(expected.values()) - min(expected.values())) + 16  # a rank's chunks may be the larger ones
    for rank in working(task):
        messages = sent(reply, rank)
        if abs(sum(messages) - expected[rank]) > slack:
            return (
                f"Right on all {len(expected)} ranks, but rank {rank} sent {size(sum(messages))} where a ring sends "
                f"{size(expected[rank])}, {formula}."
                + ("" if sum(messages) > expected[rank] else " Do you call wait() for every isend()?")
            )
        if len(messages) > task.facts["messages"]:
            return f"Rank {rank} sent {len(messages)} messages where {task.facts['messages']} are enough."
    return carried_too_little(reply, total) or carried_too_much(reply, total)


def _draw_all_reduce(rng: Random) -> list[Case]:
    gather = {"ranks": 4, "numbers": rng.randint(5, 9), "subgroup": [1, 2, 3], "empty": 0, "dtype": "bfloat16"}
    alone = {"ranks": 2, "numbers": rng.randint(2, 9), "subgroup": [1]}
    loads = {"ranks": 3, "numbers": 3 * rng.randint(2, 9) + 1, "dtype": "int64"}  # such as tokens per expert
    gathers = [case | {"part": "all-gather"} for case in (gather, alone)]
    return [*gathers, *(_all_reduce(case) for case in (*draw_ring(rng), loads))]


def _all_reduce(case: Case) -> Case:
    """Turn a reduce-scatter case into an all-reduce case. The bfloat16 cases use a matrix."""
    return case | {"part": "all-reduce"} | ({"matrix": True} if "bfloat16" in case.values() else {})


CHECK = Check(
    exercise="week01.ring-all-reduce",
    points=3,
    names=("ring_all_gather", "ring_all_reduce"),
    public=(
        *map(_all_reduce, RING_PUBLIC),
        _all_reduce({"ranks": 3, "numbers": 4, "dtype": "int64"}),
        {"ranks": 3, "numbers": 5, "empty": 1, "dtype": "bfloat16", "part": "all-gather"},
        {"ranks": 1, "numbers": 3, "part": "all-gather"},
    ),
    draw=_draw_all_reduce,
    make=_make_all_reduce,
    judge=_judge_all_reduce,
    parts={"all-gather": 1 / 3, "all-reduce": 2 / 3},
    hints=(
        "Two halves, each a ring: chunks accumulate their sum, then finished chunks go around. You send in each step "
        "what you received in the previous one.",
        "All-gather: in step s rank r sends chunk (r - s) mod N to the right and receives chunk (r - 1 - s) mod N.",
        "All-reduce: tensor_split the flat tensor, reduce-scatter, all-gather with the sizes of the chunks, cat, view.",
    ),
)
