"""An all-to-all with uneven numbers of rows that only the sender knows, and its backward."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, trouble
from autograder.checks.groups import dtype_of, group_task, members_of
from autograder.weeks.week12_expert_parallel._shared import (
    EVEN,
    IDLE,
    MASKED,
    NUMBER,
    ONE,
    QUIET,
    arriving,
    drawn,
    leaving,
    sends_too_much,
    wrong_tensors,
)

WHY = {
    "the rows that arrive": "Order them by source: first the rows from rank 0 of the group, then from rank 1, …",
    "the counts": "Return, as int64, how many rows came from each rank of the group.",
    "the gradient of x": "Which rank received each row and has its gradient now? In the backward, the two lists of "
    "counts swap.",
}


def counts(case: Case, rng: Random) -> list[list[int]]:
    """The number of rows from member to member."""
    num, special, routing = len(members_of(case)), case.get("special", 0), case["routing"]
    rows = [[rng.randint(1, 6) for _ in range(num)] for _ in range(num)]
    for member in range(num):
        if routing == ONE:
            rows[member] = [sum(rows[member]) if target == special else 0 for target in range(num)]
        if routing == IDLE:
            rows[member][special] = 0
        if routing == QUIET and member == special:
            rows[member] = [0] * num
    return rows


def _make(case: Case, rng: Random) -> Task:
    members, dtype, width = members_of(case), dtype_of(case), case["width"]
    rows = counts(case, rng)
    sent = [drawn(rng, sum(mine), width, dtype=dtype) for mine in rows]
    back = [drawn(rng, sum(one[member] for one in rows), width, dtype=dtype) for member in range(len(members))]
    pieces = [one.split(mine) for one, mine in zip(sent, rows, strict=True)]
    came = [[one[member] for one in rows] for member in range(len(members))]
    returned = [one.split(mine) for one, mine in zip(back, came, strict=True)]
    args, expected, most = {}, {}, {}
    for member, rank in enumerate(members):
        args[rank] = [sent[member], rows[member], back[member]]
        arrived = torch.cat([one[member] for one in pieces])
        gradient = torch.cat([one[member] for one in returned])
        expected[rank] = dict(zip(WHY, (arrived, torch.tensor(came[member]), gradient), strict=True))
        travel = leaving(rows, member) + arriving(rows, member)
        most[rank] = travel * width * dtype.itemsize + NUMBER * len(members) ** 2 + 64
    return group_task(case, "exchange_step", args, expected, keeps_inputs=True, most=most)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply) or wrong_tensors(task, reply, WHY, relative=0.0):
        return problem
    why = "send each row once to its rank, each gradient once back, and the counts"
    return sends_too_much(task, reply, task.facts["most"], why)


def _draw(rng: Random) -> list[Case]:
    """Uneven; one rank gets all; one gets none; one has none; part of the world; one rank alone; bfloat16."""

    def case(ranks: int, routing: str, **more: object) -> Case:
        return {"ranks": ranks, "width": 4 * rng.randint(8, 12), "routing": routing} | more

    return [
        case(3, EVEN, dtype="bfloat16"),
        case(4, ONE, subgroup=[0, 2, 3], special=rng.randint(0, 2)),
        case(3, IDLE, special=rng.randint(0, 2)),
        case(4, QUIET, subgroup=[1, 2, 3], special=rng.randint(0, 2)),
        case(4, EVEN),
        case(2, EVEN, subgroup=[1]),
    ]


CHECK = Check(
    exercise="week12.exchange",
    points=3,
    names=("exchange_step",),
    public=(
        {"ranks": 2, "width": 32, "routing": EVEN},
        {"ranks": 4, "width": 32, "routing": IDLE, "special": 1, "subgroup": [1, 2, 3], "dtype": "bfloat16"},
        {"ranks": 3, "width": 32, "routing": QUIET, "special": 2},
        {"ranks": 1, "width": 32, "routing": EVEN},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=20.0,
    hints=(
        "A rank knows how many rows it sends to each rank, but not how many it will receive. So exchange these counts "
        "first.",
        "Counts: an all-to-all of a tensor with one number per rank. Rows: torch.empty with sum(received) rows, "
        "then all_to_all_single(came, x.contiguous(), received, sent). The backward: ____ and ____ swapped.",
        "ctx.counts = received, sent, group in the forward; backward returns moved(gradient, *ctx.counts), None, None, "
        "None. A rank without rows must call it too.",
    ),
)
