"""Ulysses (arXiv 2309.14509): exchanges positions for heads by all-to-all and back, forward and backward."""

from __future__ import annotations

import re
from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, calls_of, trouble
from autograder.checks.groups import group_task, members_of, working
from autograder.weeks.week14_long_context._shared import (
    CONTIGUOUS,
    MASKED,
    attention,
    drawn,
    parts,
    sends_too_much,
    sequence,
    wrong_tensors,
)

NAMES = ("the output", "dq", "dk", "dv")
BACK = "The backward of an exchange is the reverse exchange. Sum the gradients of heads that share keys."
WHY = {
    "the output": "Which heads does this rank have after the exchange, and which keys belong to them?",
    "dq": BACK,
    "dk": BACK,
    "dv": BACK,
}


def _make(case: Case, rng: Random) -> Task:
    q, k, v = sequence(case, rng)
    leaves = [one.double().requires_grad_() for one in (q, k, v)]
    output, _ = attention(*leaves)
    gradient = drawn(rng, *output.shape)
    found = torch.autograd.grad(output, leaves, gradient.double())
    case = case | {"layout": CONTIGUOUS}
    args = {rank: mine[:4] for rank, mine in parts(case, q, k, v, gradient).items()}
    wanted = parts(case, *(one.detach().float() for one in (output, *found)))
    expected = {rank: dict(zip(NAMES, mine[:4], strict=True)) for rank, mine in wanted.items()}
    num_ranks, per_head = len(members_of(case)), case.get("batch", 1) * case["rows"] * case["width"] * 4
    heads = 2 * case["heads"] + 2 * max(case["kv_heads"], num_ranks)  # q and o; k and v, at least one head per rank
    sent = 2 * (num_ranks - 1) / num_ranks * heads * per_head
    return group_task(case, "ulysses_step", args, expected, keeps_inputs=True, sent=sent)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if case.get("refused"):
        return _not_refused(case, task, reply)
    if problem := trouble(reply) or wrong_tensors(task, reply, WHY):
        return problem
    why = "send q, k, v and o except its own share, forward and backward, with one shared key head per rank"
    return sends_too_much(task, reply, task.facts["sent"], why)


def _not_refused(case: Case, task: Task, reply: Reply) -> str | None:
    """The problem if heads that cannot be split are not refused: a ValueError with both numbers, nothing sent."""
    num_ranks = len(working(task))
    wrong = case["heads"] if case["heads"] % num_ranks else case["kv_heads"]
    kind = "heads" if case["heads"] % num_ranks else "key-value heads"
    asked = f"{wrong} {kind} cannot be split over {num_ranks} ranks"
    for rank in working(task):
        error = str(reply.ranks[rank].get("raised", "")).strip().rsplit("\n", 1)[-1]
        if error.startswith("NotImplementedError") or "refused" in reply.ranks[rank]:
            return trouble(reply)
        if not error.startswith("ValueError"):
            came = error[:120] or "no error"
            return f"{asked}: raise a ValueError that says so, on every rank. Rank {rank} reports: {came}."
        if not {str(wrong), str(num_ranks)} <= set(re.findall(r"\d+", error)):
            return f"{asked}: name both numbers in the ValueError. Rank {rank} says: {error[:120]}"
        if calls_of(reply, rank):
            return f"{asked}: rank {rank} raises the error only after it has sent something. Raise it first."
    return None


def _draw(rng: Random) -> list[Case]:
    """As many key heads as heads, fewer, fewer than ranks; part of the world, one rank; heads that cannot be split."""

    def case(ranks: int, heads: int, kv_heads: int, **more: object) -> Case:
        sizes = {"rows": rng.randint(2, 6), "width": rng.choice([4, 6, 8]), "batch": rng.randint(1, 2)}
        return {"ranks": ranks, "heads": heads, "kv_heads": kv_heads} | sizes | more

    return [
        case(2, 4, 4),
        case(4, 6, 3, subgroup=[0, 1, 3]),
        case(4, 8, 2),
        case(2, 3, 1, subgroup=[1]),
        case(3, 4, 1, refused=True),
        case(4, 12, 6, refused=True),
    ]


CHECK = Check(
    exercise="week14.ulysses",
    points=3,
    names=("ulysses_step",),
    public=(
        {"ranks": 2, "rows": 2, "heads": 2, "kv_heads": 2, "width": 4},
        {"ranks": 4, "rows": 3, "heads": 6, "kv_heads": 1, "width": 4, "batch": 2, "subgroup": [1, 2, 3]},
        {"ranks": 4, "rows": 2, "heads": 6, "kv_heads": 2, "width": 4, "refused": True},
        {"ranks": 4, "rows": 2, "heads": 12, "kv_heads": 6, "width": 4, "refused": True},
        {"ranks": 1, "rows": 2, "heads": 2, "kv_heads": 1, "width": 4},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=20.0,
    hints=(
        "Before: all heads, some positions. In between: some heads, all positions. Cut along one dimension and join "
        "along the other.",
        "parts = torch.stack(x.chunk(size, cut)); all_to_all_single into torch.empty_like(parts); "
        "torch.cat(list(came), "
        "join). The backward calls the same with cut and join ____.",
        "Fewer key heads than ranks: repeat_interleave(size // kv_heads, 1) before the exchange. Then q, k, v from 1 "
        "to 2, attention, o from 2 to 1. Raise the two ValueErrors before all of this.",
    ),
)
