"""Gradients after the backward: the mean over all tokens, for dense weights and experts; one norm and one clip."""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.mesh import Grid
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, trouble
from autograder.checks.meshes import groups_by_rank, task_inputs
from autograder.weeks.week12_expert_parallel._shared import NUMBER, drawn, sends_too_much, wrong_tensors

MASKED = ("shardlab.expert_parallel", "shardlab.hybrid", "shardlab.data_parallel", "shardlab.mesh")
TOLERANCE = 1e-4  # torch's clip adds 1e-6 to the norm
WHY = {
    "the norm": (
        "Take the norm of the whole model's mean gradients: count each dense number once and each expert once, on "
        "whichever rank it is. What do you divide expert gradients by?"
    ),
    "the dense gradient": "Take the mean over all ranks of dp, then use the same scale for all gradients.",
    "the expert gradient": (
        "The backward of the all-to-all has already summed over the ep ranks; edp adds the rest. Divide by the same "
        "number of ranks as for dense gradients."
    ),
}


def whole(dense: list[Tensor], experts: list[list[Tensor]], most: float) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The norm, the clipped dense gradient, and the clipped gradients of each part of the experts, in float64.

    dense: one gradient per rank; experts[i][j]: the gradient of the j-th copy of the i-th part of the experts.
    """
    mean = torch.stack(dense).double().mean(0)
    of_experts = [torch.stack(copies).double().sum(0) / len(dense) for copies in experts]
    norm = torch.cat([one.flatten() for one in (mean, *of_experts)]).norm()
    scale = (most / norm).clamp(max=1.0)
    return norm, mean * scale, [one * scale for one in of_experts]


def _make(case: Case, rng: Random) -> Task:
    grid = Grid((("ep", case["ep"]), ("edp", case["edp"])))
    if case.get("by_hand"):
        dense = [torch.ones(1) for _ in range(grid.world)]
        own = [torch.full((1,), float(grid.world)) for _ in range(grid.world)]
    else:
        dense = [drawn(rng, case["dense"]) for _ in range(grid.world)]
        own = [drawn(rng, case["expert"], 2) for _ in range(grid.world)]
    copies = [[own[rank] for rank in members] for members in grid.groups("edp")]
    largest = whole(dense, copies, 1e9)[0]
    most = float(largest) * case["clips"]
    norm, mean, of_experts = whole(dense, copies, most)
    args, expected, limits = [], [], {}
    for rank in range(grid.world):
        args.append([[dense[rank]], [own[rank]], most])
        mine = of_experts[grid.coordinates(rank)["ep"]]
        values = norm.float(), mean.float(), mine.float()
        expected.append(dict(zip(WHY, values, strict=True)))
        due = ring_all_reduce_bytes(grid.world, dense[rank].nbytes) + ring_all_reduce_bytes(
            case["edp"], own[rank].nbytes
        )
        limits[rank] = due + 4 * NUMBER * grid.world
    made, groups = groups_by_rank(grid, {"dp": ("ep", "edp"), "ep": ("ep",), "edp": ("edp",)})
    facts = {"most": limits}
    return Task("gradients_step", grid.world, task_inputs(args, groups), expected, made, facts=facts, keeps_inputs=True)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply) or wrong_tensors(task, reply, WHY, relative=TOLERANCE, factors=True):
        return problem
    return sends_too_much(
        task, reply, task.facts["most"], "send dense gradients over dp, expert gradients over edp, and one number"
    )


def _draw(rng: Random) -> list[Case]:
    """Copies and parts of experts, only parts, only copies; each with and without clipping."""

    def case(ep: int, edp: int, clips: float) -> Case:
        sizes = {"dense": rng.randint(200, 400), "expert": rng.randint(100, 200)}
        return {"ep": ep, "edp": edp, "clips": clips} | sizes

    return [case(2, 2, 0.25), case(3, 1, 0.5), case(1, 3, 0.5), case(2, 2, 3.0), case(2, 3, 0.4), case(4, 1, 2.0)]


CHECK = Check(
    exercise="week12.gradients",
    points=3,
    names=("gradients_step",),
    public=(
        {"ep": 2, "edp": 1, "clips": 0.5, "by_hand": True},
        {"ep": 2, "edp": 2, "clips": 0.5, "dense": 300, "expert": 150},
        {"ep": 3, "edp": 1, "clips": 2.0, "dense": 300, "expert": 150},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=20.0,
    hints=(
        "Ask two questions about each gradient: which ranks' tokens does it already include, and which ranks hold a "
        "copy?",
        "All-reduce dense gradients over dp, expert gradients over edp, and divide both by the size of ____. Sum the "
        "squares of the experts over ep; count the dense ones once.",
        "total = sum of squares of my experts; all_reduce over ep; add the dense squares; take the square root. scale "
        "= "
        "min(1, max_norm / norm), for all gradients.",
    ),
)
