"""Hang hunt: experts whose kernel rejects empty inputs, on a rank that may have received nothing at all.

The exchange is the package's own, and x is added, as in a transformer. If a rank's result does not depend on its
inputs, the rank sends nothing back and ends without an error, and the others wait.
"""

from __future__ import annotations

from random import Random

import torch
from torch.nn.functional import gelu

from autograder.checks.base import Case, Check, Reply, Task, trouble
from autograder.checks.groups import group_task, members_of
from autograder.weeks.week12_expert_parallel._shared import EVEN, IDLE, ONE, QUIET, drawn, wrong_tensors

MASKED = (
    "shardlab.expert_parallel.layer",
    "shardlab.expert_parallel.dispatch",
    "shardlab.expert_parallel.expert_tensor",
    "shardlab.model.experts",
    "shardlab.model.moe",
)
WHY = {
    "the output": "Does each expert get its own rows, and are the results in the order of the rows?",
    "the gradient of x": "The result of a rank must depend on the rows that it received, even if there are none.",
    "the gradient of up": "An expert without rows must have a gradient of zeros.",
    "the gradient of down": "An expert without rows must have a gradient of zeros.",
}


def _sizes(case: Case, rng: Random) -> list[list[int]]:
    """The number of rows for each expert from each member."""
    num, own, special, routing = len(members_of(case)), case["own"], case.get("special", 0), case["routing"]
    total = num * own
    table = [[rng.randint(1, 4) for _ in range(total)] for _ in range(num)]
    for member, mine in enumerate(table):
        mine[own - 1] = 0 if own > 1 else mine[own - 1]  # one expert without rows, on a rank that has some
        if routing == ONE:
            table[member] = [9 if expert == special else 0 for expert in range(total)]
        if routing == IDLE:
            mine[special * own : (special + 1) * own] = [0] * own
        if routing == QUIET and member == special:
            table[member] = [0] * total
    return table


def _make(case: Case, rng: Random) -> Task:
    members, own, hidden, width = members_of(case), case["own"], 6, 5
    table = _sizes(case, rng)
    up = drawn(rng, own * len(members), hidden, width)
    down = drawn(rng, own * len(members), width, hidden)
    parts = [drawn(rng, sum(mine), hidden) for mine in table]
    gradients = [drawn(rng, sum(mine), hidden) for mine in table]
    numbers = [torch.arange(len(up)).repeat_interleave(torch.tensor(mine)) for mine in table]
    leaves = [one.double().requires_grad_() for one in (torch.cat(parts), up, down)]
    at = torch.cat(numbers)
    output = leaves[0] + (gelu(leaves[0][:, None] @ leaves[1][at]) @ leaves[2][at]).squeeze(1)
    found = torch.autograd.grad(output, leaves, torch.cat(gradients).double())
    lengths = [len(one) for one in parts]
    by_member = [one.float().split(lengths) for one in (output.detach(), found[0])]
    args, expected = {}, {}
    for member, rank in enumerate(members):
        mine = slice(member * own, (member + 1) * own)
        args[rank] = [parts[member], table[member], up[mine].clone(), down[mine].clone(), gradients[member]]
        values = *(one[member].clone() for one in by_member), *(one[mine].float() for one in found[1:])
        expected[rank] = dict(zip(WHY, values, strict=True))
    return group_task(case, "hunt_step", args, expected, keeps_inputs=True)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    return trouble(reply) or wrong_tensors(task, reply, WHY)


def _draw(rng: Random) -> list[Case]:
    """A rank without rows, first and last; experts without; all rows to one expert; none from one rank; one rank."""

    def case(ranks: int, own: int, routing: str, **more: object) -> Case:
        return {"ranks": ranks, "own": own, "routing": routing} | more

    return [
        case(3, 2, IDLE, special=0),
        case(4, 1, IDLE, special=2, subgroup=[1, 2, 3]),
        case(3, 2, ONE, special=rng.randint(0, 5)),
        case(3, 3, QUIET, special=rng.randint(0, 2)),
        case(4, 3, EVEN, subgroup=[0, 2, 3]),
        case(2, 2, EVEN, subgroup=[1]),
    ]


CHECK = Check(
    exercise="week12.empty-rank",
    points=2,
    names=("hunt_step",),
    public=(
        {"ranks": 2, "own": 2, "routing": EVEN},
        {"ranks": 2, "own": 1, "routing": IDLE, "special": 1},
        {"ranks": 4, "own": 2, "routing": ONE, "special": 3, "subgroup": [1, 2, 3]},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=10.0,
    hints=(
        "Autograd goes back from results to inputs. A newly created tensor has no path back.",
        "An ordinary matrix product of no rows is legal: it costs nothing, its result has no rows, and its gradients "
        "are ____. Only the fast kernel rejects it.",
        "results.append(kernel(piece, up[e], down[e]) if len(piece) else gelu(piece @ up[e]) @ down[e])",
    ),
)
