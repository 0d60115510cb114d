"""A balance loss on several ranks and microbatches: once per step, with everyone's counts, the same on every mesh.

Ranks have the same number of tokens; the loss of each microbatch counts the choices of all ranks. The page's `moe_step`
runs each layer twice, as recomputation does, and averages gradients over ranks, as data parallelism does.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from shardlab.costs.traffic import ring_all_reduce_bytes
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, calls_of, size, touched_input, trouble
from autograder.checks.groups import group_task, members_of, working
from autograder.weeks.week11_moe._shared import MASKED, TOLERANCE, clear_cut, drawn, value_on, wrong_tensors

NUMBER = 8  # bytes per count
WHY = {
    "the gradient of the router": "How often per step does the loss count, and which ranks' choices does it see?",
    "the gradient of the experts": "The balance loss must not change the layer's output or its gradient.",
    "the counts": "Count all ranks' choices in all microbatches once, although every layer runs twice.",
}


def one_process(
    batches: list[Tensor], targets: list[Tensor], router: Tensor, scales: Tensor, k: int, coefficient: float
) -> dict[str, Tensor]:
    """Both gradients and the counts of one process that has every rank's tokens, in float64."""
    leaves = [one.double().requires_grad_() for one in (router, scales)]
    counts = torch.zeros(len(router), dtype=torch.int64)
    for x, target in zip(batches, targets, strict=True):
        scores = (x.double() @ leaves[0].T).softmax(-1)
        weights, experts = scores.topk(k, -1)
        y = (weights.unsqueeze(-1) * leaves[1][experts]).sum(1) * x
        load = torch.bincount(experts.flatten(), minlength=len(router))
        balance = len(router) * (load / load.sum() * scores.mean(0)).sum()
        (((y - target).square().mean() + coefficient * balance) / len(batches)).backward()
        counts += load
    gradients = [leaf.grad.float() for leaf in leaves if leaf.grad is not None]
    return dict(zip(WHY, [*gradients, counts], strict=True))


def _make(case: Case, rng: Random) -> Task:
    members, num, hidden, k = members_of(case), case["experts"], case["hidden"], case["k"]
    router, scales = drawn(rng, num, hidden), drawn(rng, num, hidden)
    router = router + torch.linspace(-0.3, 0.3, num).unsqueeze(1)  # some experts are more popular
    needed = len(members) * case["microbatches"] * case["tokens"]
    x = clear_cut(drawn(rng, 8 * needed, hidden) + 0.3, k, lambda rows: (rows @ router.T).softmax(-1), needed)
    target = drawn(rng, needed, hidden)
    parts = [one.view(case["microbatches"], len(members), case["tokens"], hidden) for one in (x, target)]
    batches, targets = ([one.flatten(0, 1) for one in part] for part in parts)
    expected = one_process(batches, targets, router, scales, k, case["coefficient"])
    args: dict[int, list[Any]] = {}
    for place, rank in enumerate(members):
        mine = [[one[place].clone() for one in part] for part in parts]
        args[rank] = [*mine, router.clone(), scales.clone(), k, case["coefficient"]]
    small = 2 * case["microbatches"] * ring_all_reduce_bytes(len(members), NUMBER * num)
    due = small + ring_all_reduce_bytes(len(members), router.nbytes + scales.nbytes)
    return group_task(case, "moe_step", args, dict.fromkeys(members, expected), keeps_inputs=True, due=due)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank in working(task):
        if problem := wrong_tensors(rank, value_on(reply, rank), task.expected[rank], WHY, relative=TOLERANCE):
            return problem
        if problem := touched_input(rank, reply.ranks[rank], task):
            return problem
    for rank in working(task):
        mine = sum(call.sent_bytes for call in calls_of(reply, rank))
        if mine > task.facts["due"] + 64:
            return (
                f"Right, but rank {rank} sends {size(mine)}, and {size(task.facts['due'])} would be "
                "enough: gradients, and E counts per microbatch. Do not send scores or choices."
            )
    return None


def _draw(rng: Random) -> list[Case]:
    """One, two and three ranks, part of the world; one microbatch and several; one choice and several."""

    def case(ranks: int, microbatches: int, k: int, **more: object) -> Case:
        sizes = {"tokens": rng.randint(12, 24), "experts": rng.randint(5, 8), "hidden": rng.randint(4, 6)}
        return (
            {"ranks": ranks, "microbatches": microbatches, "k": k, **sizes}
            | {"coefficient": rng.choice([0.25, 0.5, 0.75])}
            | more
        )

    return [
        case(2, 1, 1),
        case(3, 2, rng.randint(2, 3)),
        case(4, 3, 2, subgroup=[1, 2, 3]),
        case(2, 2, 2, subgroup=[1]),
    ]


CHECK = Check(
    exercise="week11.flow-more",
    points=2,
    optional=True,
    names=("moe_step",),
    public=(
        {"ranks": 2, "microbatches": 1, "tokens": 12, "experts": 4, "hidden": 4, "k": 1, "coefficient": 0.5},
        {"ranks": 4, "microbatches": 3, "tokens": 16, "experts": 6, "hidden": 5, "k": 2, "coefficient": 0.25}
        | {"subgroup": [1, 2, 3]},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=15.0,
    hints=(
        "The section names three mistakes: once per microbatch, local counts only, counted twice. Which of them can "
        "you rule out in your code?",
        "Return y early where `not torch.is_grad_enabled()`; all_reduce the load; share = load / load.sum(); "
        "scores.mean(0) is this rank's own.",
        "return WithLoss.apply(y, coefficient * loss / ____): the ranks' mean is taken by moe_step, the microbatches' "
        "is not.",
    ),
)
