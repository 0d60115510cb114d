"""Dispatch in two levels: one copy of a token to each node that has experts for it, and the rest inside the node."""

from __future__ import annotations

from random import Random

import torch
from shardlab.mesh import Grid
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, calls_of, size, trouble
from autograder.checks.meshes import groups_by_rank, task_inputs
from autograder.checks.packets import crossed
from autograder.weeks.week12_expert_parallel._shared import MASKED, NUMBER, drawn, with_gradients, wrong_tensors

WHY = {
    "the output": "Does each copy reach all its experts on this node, and do you sum the nodes' results per token?",
    "the gradient of x": "Each node's copy sends a gradient back; they are summed for the token.",
    "the gradient of weights": "The weights were sent with the copies, so their gradients must be sent back.",
}


def choices(case: Case, rng: Random) -> list[Tensor]:
    """The experts [T, K] of each rank's tokens, on at most `allowed` nodes; one rank's tokens stay on one node."""
    per_node, world = case["own"] * case["inside"], case["inside"] * case["across"]
    found = []
    for rank in range(world):
        tokens = 0 if case.get("quiet") == rank else case["tokens"] + rank
        mine = []
        for _ in range(tokens):
            nodes = rng.sample(range(case["across"]), case["allowed"])
            nodes = [case["lonely"]] if "lonely" in case else nodes
            reachable = [one for one in range(per_node * case["across"]) if one // per_node in nodes]
            mine.append(rng.sample(reachable, case["k"]))
        found.append(torch.tensor(mine, dtype=torch.int64).view(tokens, case["k"]))
    return found


def copies(experts: Tensor, per_node: int, num_nodes: int) -> list[int]:
    """For each node, how many of a rank's tokens have an expert on it."""
    touched = torch.zeros(len(experts), num_nodes).scatter_(1, experts // per_node, 1.0)
    return [int(one) for one in touched.sum(0)]


def _make(case: Case, rng: Random) -> Task:
    grid = Grid((("inside", case["inside"]), ("across", case["across"])))
    own, hidden, width, k = case["own"], case["hidden"], 4, case["k"]
    experts = choices(case, rng)
    parts = [drawn(rng, len(one), hidden) for one in experts]
    weights = [drawn(rng, *one.shape).softmax(-1) for one in experts]
    up = drawn(rng, own * grid.world, hidden, width) / hidden**0.5
    down = drawn(rng, own * grid.world, width, hidden) / width**0.5
    gradients, outputs, of_x, of_weights, _, _ = with_gradients(parts, experts, weights, up, down, rng)
    sent = [copies(one, own * case["inside"], case["across"]) for one in experts]
    args, expected, most = [], [], {}
    for rank in range(grid.world):
        mine = slice(rank * own, (rank + 1) * own)
        held = [up[mine].clone(), down[mine].clone()]
        args.append([parts[rank], experts[rank], weights[rank], *held, gradients[rank]])
        expected.append(dict(zip(WHY, (outputs[rank], of_x[rank], of_weights[rank]), strict=True)))
        node = rank // case["inside"]
        out = sum(sent[rank]) - sent[rank][node]
        back = sum(sent[other][node] for other in grid.group_of(rank, "across") if other != rank)
        beside = out * k * (NUMBER + 4) + back * k * 4  # experts' numbers, weights, and the weights' gradients
        most[rank] = 2 * (out + back) * 4 * hidden + beside + 4 * NUMBER * grid.world**2 + 64
    made, groups = groups_by_rank(grid, {"across": ("across",), "inside": ("inside",)})
    return Task(
        "two_level_step", grid.world, task_inputs(args, groups), expected, made, {"most": most}, keeps_inputs=True
    )


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply) or wrong_tensors(task, reply, WHY):
        return problem
    per_node = case["inside"]
    for rank in range(len(task.expected)):
        spent = 0.0
        for call in calls_of(reply, rank):
            others = call.members if call.peer is None else [call.peer]
            spent += call.sent_bytes * any(other // per_node != rank // per_node for other in others)
        spent = max(spent, crossed(reply.wire, rank, per_node))
        if spent > (most := task.facts["most"][rank]):
            return (
                f"Right, but rank {rank} sends {size(spent)} to other nodes, and {size(most)} would be "
                "enough: one copy of a token for each node that has experts for it, and one sum back."
            )
    return None


def _draw(rng: Random) -> list[Case]:
    """Two and three nodes, limits; a rank without tokens; a node that no token visits; one node; one rank per node.

    Both groups have one rank in the last public case.
    """

    def case(inside: int, across: int, own: int, k: int, allowed: int, **more: object) -> Case:
        shape = {"inside": inside, "across": across, "own": own, "k": k, "allowed": allowed}
        return shape | {"tokens": rng.randint(12, 16), "hidden": 4 * rng.randint(16, 20)} | more

    return [
        case(2, 2, 2, 4, 1),
        case(2, 2, 3, 4, 2),
        case(2, 3, 2, 4, 2),
        case(2, 2, 2, 3, 1, quiet=rng.randint(0, 3)),
        case(2, 2, 2, 3, 1, lonely=rng.randint(0, 1)),
        case(1, 3, 4, 3, 2),
        case(3, 1, 2, 3, 1),
    ]


CHECK = Check(
    exercise="week12.two-level",
    points=3,
    optional=True,
    names=("two_level_step",),
    public=(
        {"inside": 2, "across": 2, "own": 2, "k": 4, "allowed": 1, "tokens": 12, "hidden": 64},
        {"inside": 2, "across": 2, "own": 3, "k": 3, "allowed": 2, "tokens": 12, "hidden": 64, "quiet": 2},
        {"inside": 2, "across": 3, "own": 1, "k": 3, "allowed": 2, "tokens": 12, "hidden": 64},
        {"inside": 1, "across": 1, "own": 4, "k": 3, "allowed": 1, "tokens": 12, "hidden": 64},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=30.0,
    hints=(
        "First treat a node as one large rank: which tokens have at least one expert there? Inside the node, use your "
        "layer.",
        "wanted [T, N] marks the nodes that a token visits; its nonzero entries, by node, are the copies. Send each "
        "copy's k experts and k ____ with it. On the node, keep the choices whose expert // per_node is ____.",
        "here, choice = (theirs // per_node == node).nonzero(as_tuple=True); expert_layer(copies[here], ..., "
        "group=inside) with k = 1; zeros_like(copies).index_add(0, here, done); exchange back; index_add at home.",
    ),
)
