"""Hybrid sharding: weights sharded inside a node, replicated across nodes, with a byte budget for each axis."""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs.traffic import ring_all_gather_bytes, ring_all_reduce_bytes, ring_reduce_scatter_bytes
from shardlab.mesh import Grid
from torch import Tensor

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    calls_of,
    carried_too_little,
    size,
    touched_input,
    trouble,
    wrong_value,
)
from autograder.checks.groups import LARGE
from autograder.checks.meshes import groups_by_rank, task_inputs
from autograder.checks.packets import crossed

LR = 0.25


def _make(case: Case, rng: Random) -> Task:
    per_node, num_nodes = case["ranks_per_node"], case["nodes"]
    grid = Grid((("shard", per_node), ("replica", num_nodes)))
    num = case["numbers"] * per_node
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    weights = torch.randn(num, generator=generator, dtype=torch.float64)
    rows = [torch.randn(3, num, generator=generator, dtype=torch.float64) / num**0.5 for _ in range(grid.world)]
    new = weights - LR * _gradient(weights, rows)
    args, expected = [], []
    for rank in range(grid.world):
        place = rank % per_node
        args.append([weights.chunk(per_node)[place].clone(), rows[rank], LR])
        expected.append(new.chunk(per_node)[place].clone())
    made, mine = groups_by_rank(grid, {"node_group": ("shard",), "cross_group": ("replica",)})
    num_bytes = 8 * num
    facts = {
        "node": ring_all_gather_bytes(per_node, num_bytes) + ring_reduce_scatter_bytes(per_node, num_bytes),
        "cross": ring_all_reduce_bytes(num_nodes, num_bytes / per_node),
    }
    return Task("hsdp_step", grid.world, task_inputs(args, mine), expected, made, facts, keeps_inputs=True)


def _gradient(weights: Tensor, rows: list[Tensor]) -> Tensor:
    """The gradient of the mean over ranks of mean((x @ w)^2)."""
    leaf = weights.clone().requires_grad_()
    loss = torch.stack([(one @ leaf).square().mean() for one in rows]).mean()
    (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank, expected in enumerate(task.expected):
        reported = reply.ranks[rank]
        received = reported.get("value", {}).get("plain")
        if isinstance(received, Tensor) and received.numel() > expected.numel():
            return (
                f"Rank {rank} returns {received.numel()} numbers. Return only its own shard, {expected.numel()} "
                "numbers."
            )
        problem = wrong_value(rank, received, expected, "the new shard", relative=1e-9) or touched_input(
            rank, reported, task
        )
        if problem := problem or _over_budget(case, task, reply, rank):
            return problem
    least = sum(task.facts.values()) * len(task.expected)
    return carried_too_little(reply, int(0.98 * least))


def _over_budget(case: Case, task: Task, reply: Reply, rank: int) -> str | None:
    per_node, spent = case["ranks_per_node"], {"node": 0.0, "cross": 0.0}
    for call in calls_of(reply, rank):
        others = call.members if call.peer is None else [call.peer]
        leaves = any(other // per_node != rank // per_node for other in others)
        spent["cross" if leaves else "node"] += call.sent_bytes
    spent["cross"] = max(spent["cross"], crossed(reply.wire, rank, per_node))
    where = {"node": "inside its node", "cross": "to other nodes"}
    for axis, expected in task.facts.items():
        if spent[axis] > expected + 64:
            return (
                f"Rank {rank} sends {size(spent[axis])} {where[axis]}, but {size(expected)} would be enough. Which "
                "collectives need the whole vector, and which need only a shard?"
            )
    return None


def _draw(rng: Random) -> list[Case]:
    return [
        {"ranks_per_node": 2, "nodes": 2, "numbers": rng.randint(40, 99)},
        {"ranks_per_node": 2, "nodes": 3, "numbers": rng.randint(40, 99)},
        {"ranks_per_node": 2, "nodes": 2, "numbers": LARGE // 8 + rng.randint(1, 99)},
    ]


CHECK = Check(
    exercise="week09.hsdp",
    points=3,
    names=("hsdp_step",),
    public=(
        {"ranks_per_node": 2, "nodes": 2, "numbers": 50},
        {"ranks_per_node": 3, "nodes": 2, "numbers": 50},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=("shardlab.collectives", "shardlab.data_parallel", "shardlab.hybrid"),
    timeout=30.0,
    optional=True,
    hints=(
        "Inside the node it is ZeRO-3: gather, use, reduce-scatter. Across nodes it is DDP on a shard.",
        "all_gather_single over node_group; backward; reduce_scatter_single over node_group; all_reduce the result "
        "over "
        "cross_group; divide by the number of all ranks; update.",
        "The mean is over the ranks of both groups: divide by the product of their sizes.",
    ),
)
