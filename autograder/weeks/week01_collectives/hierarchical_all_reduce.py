"""An all-reduce that sends as little as possible between nodes."""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs import traffic

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    calls_of,
    carried_too_little,
    size,
    trouble,
    whole_numbers,
)
from autograder.checks.groups import LARGE, dtype_of, each_rank, shape_of, working
from autograder.checks.packets import ObservedCall, crossed


def _make_hierarchical(case: Case, rng: Random) -> Task:
    per_node = case.get("ranks_per_node", 2)
    num_nodes = case["ranks"] // per_node
    nodes = [[node * per_node + place for place in range(per_node)] for node in range(num_nodes)]
    crosses = [[node * per_node + place for node in range(num_nodes)] for place in range(per_node)]
    shape = shape_of(case)
    tensors = [whole_numbers(rng, case["numbers"], dtype_of(case)).reshape(shape) for _ in range(case["ranks"])]
    total = torch.stack(tensors).sum(0).to(dtype_of(case))
    return Task(
        call="hierarchical_all_reduce",
        ranks=case["ranks"],
        groups=[*nodes, *crosses],
        inputs=[
            {
                "args": [tensor],
                "groups": {"node_group": rank // per_node, "cross_group": num_nodes + rank % per_node},
            }
            for rank, tensor in enumerate(tensors)
        ],
        expected=[total] * case["ranks"],
        keeps_inputs=True,
        facts={"per_node": per_node, "num_nodes": num_nodes, "num_bytes": case["numbers"] * dtype_of(case).itemsize},
    )


def _judge_hierarchical(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply) or each_rank(task, reply, "the sum"):
        return problem
    per_node, num_nodes, num_bytes = (task.facts[name] for name in ("per_node", "num_nodes", "num_bytes"))
    expected = traffic.hierarchical_all_reduce_cross_bytes(num_nodes, per_node, num_bytes)
    width = dtype_of(case).itemsize
    allowed = expected + 4 * width  # some chunks are one number larger when the size is not divisible
    for rank in working(task):
        claimed = sum(_crossing_bytes(call, rank, per_node) for call in calls_of(reply, rank))
        crossing = max(crossed(reply.wire, rank, per_node), claimed)
        if crossing > allowed:
            return (
                f"Right on all ranks, but rank {rank} sends {size(crossing)} to other nodes where {size(expected)} "
                "are enough. Reduce inside the node first: how much of the sum must cross then?"
            )
    return carried_too_little(reply, int(expected * case["ranks"] * 0.98))


def _crossing_bytes(call: ObservedCall, rank: int, per_node: int) -> float:
    """Bytes of one call that leave the rank's node. For a collective over several nodes, all bytes it sends count."""
    others = call.members if call.peer is None else [call.peer]
    return call.sent_bytes if any(other // per_node != rank // per_node for other in others) else 0.0


def _draw_hierarchical(rng: Random) -> list[Case]:
    return [
        {"ranks": 4, "numbers": 4 * rng.randint(9, 30) + 2, "dtype": "bfloat16", "matrix": True},
        {"ranks": 6, "numbers": 6 * rng.randint(3, 7) + 5, "ranks_per_node": 2},
        {"ranks": 6, "numbers": 6 * rng.randint(3, 7) + 1, "ranks_per_node": 3},
        {"ranks": 2, "numbers": 2 * rng.randint(1, 5) + 1, "ranks_per_node": 1},  # a rank alone in its node
        {"ranks": 2, "numbers": 2 * rng.randint(1, 5) + 1, "ranks_per_node": 2},  # one node
        {"ranks": 4, "numbers": LARGE + 4 * rng.randint(1, 24) + 1},
    ]


CHECK = Check(
    exercise="week01.hierarchical-all-reduce",
    points=3,
    optional=True,
    names=("hierarchical_all_reduce",),
    public=(
        {"ranks": 4, "numbers": 8},
        {"ranks": 6, "numbers": 250, "ranks_per_node": 3, "matrix": True},
        {"ranks": 1, "numbers": 3, "ranks_per_node": 1},
    ),
    draw=_draw_hierarchical,
    make=_make_hierarchical,
    judge=_judge_hierarchical,
    hints=(
        "Make the tensor smaller before you send anything to another node.",
        "Reduce-scatter inside the node, then all-reduce across, then all-gather inside.",
        "Split by the size of node_group. Each rank sends only its own finished chunk across.",
    ),
)
