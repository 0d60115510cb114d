"""Ring attention, backward: the keys of each step, the sums of the whole row, and gradients returned to their owner."""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, trouble
from autograder.checks.groups import POINT_TO_POINT, group_task, members_of, working
from autograder.weeks.week14_long_context._shared import (
    CONTIGUOUS,
    MASKED,
    STRIPED,
    ZIG_ZAG,
    attention,
    drawn,
    no_ring,
    parts,
    sends_too_much,
    sequence,
    wrong_tensors,
)

NAMES = ("dq", "dk", "dv")
WHY = {
    "dq": "Its sum is over the keys of every rank: which o and lse do you use?",
    "dk": "Queries on every rank use these keys: does each rank add its share, and does the sum return to the owner?",
    "dv": "Queries on every rank use these values: does each rank add its share, and does the sum return to the owner?",
}


def _make(case: Case, rng: Random) -> Task:
    q, k, v = sequence(case, rng)
    leaves = [one.double().requires_grad_() for one in (q, k, v)]
    output, lse = attention(*leaves)
    gradient = drawn(rng, *output.shape)
    found = torch.autograd.grad(output, leaves, gradient.double())
    cut = parts(case, gradient, q, k, v, output.detach().float(), lse.detach().float()[..., None])
    args = {rank: [*mine[:5], mine[5][..., 0].clone(), mine[6]] for rank, mine in cut.items()}
    wanted = parts(case, *(one.float() for one in found))
    expected = {rank: dict(zip(NAMES, mine[:3], strict=True)) for rank, mine in wanted.items()}
    mine = args[members_of(case)[0]]
    block = mine[2].nbytes + mine[3].nbytes + 8 * case["rows"]
    of_block = 4 * (mine[2].numel() + mine[3].numel())
    return group_task(case, "ring_backward", args, expected, keeps_inputs=True, block=block, of_block=of_block)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply, POINT_TO_POINT) or no_ring(task, reply) or wrong_tensors(task, reply, WHY):
        return problem
    num_ranks = len(working(task))
    most = (num_ranks > 1) * ((num_ranks - 1) * task.facts["block"] + num_ranks * task.facts["of_block"])
    return sends_too_much(task, reply, most, "send a block c - 1 times, and its gradients c times")


def _draw(rng: Random) -> list[Case]:
    """Each layout; heads that share keys; bfloat16 inputs; part of the world; one rank alone."""

    def case(ranks: int, layout: str, heads: int, kv_heads: int, **more: object) -> Case:
        sizes = {"rows": 2 * rng.randint(2, 6), "width": rng.choice([4, 6, 8]), "batch": rng.randint(1, 2)}
        return {"ranks": ranks, "layout": layout, "heads": heads, "kv_heads": kv_heads} | sizes | more

    return [
        case(3, CONTIGUOUS, 2, 2),
        case(4, ZIG_ZAG, 4, 2),
        case(4, STRIPED, 4, 1, subgroup=[0, 2, 3], dtype="bfloat16"),
        case(2, CONTIGUOUS, 2, 1, subgroup=[1]),
        case(2, ZIG_ZAG, 2, 2, batch=2),
    ]


CHECK = Check(
    exercise="week14.ring-backward",
    points=3,
    names=("ring_backward",),
    public=(
        {"ranks": 2, "rows": 2, "heads": 1, "kv_heads": 1, "width": 4, "layout": CONTIGUOUS},
        {
            "ranks": 4,
            "rows": 4,
            "heads": 4,
            "kv_heads": 2,
            "width": 4,
            "layout": ZIG_ZAG,
            "subgroup": [1, 2, 3],
            "dtype": "bfloat16",
        },
        {"ranks": 1, "rows": 2, "heads": 1, "kv_heads": 1, "width": 4, "layout": CONTIGUOUS},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=15.0,
    hints=(
        "Follow one key around the ring: which ranks use it, where is its gradient summed, and where must it end up?",
        "block_gradients needs the o and the lse of the whole row, and the current block. Add its dk and dv to a sum "
        "that ____ with the block's keys.",
        "Per step: dq += …; dk += …; dv += …; pass [k, v, positions, dk, dv] on. After c steps, dk and dv have been "
        "passed on ____ times and are back at their owner.",
    ),
)
