"""A training step over three axes on real ranks: each rank's gradients are its part of those of one process.

The pipeline must have several microbatches in flight: a stage sends its second activation before a gradient is back.

Values are float64, compared within 1e-9 of the largest. The axes are mapped to the ranks in several orders.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.mesh import Grid
from torch import Tensor
from torch.nn.functional import mse_loss

from autograder.checks.base import Case, Check, Reply, Task, calls_of, carried_too_little, size, touched_input, trouble
from autograder.checks.meshes import MASKED, grid_of, groups_by_rank, task_inputs

TOLERANCE = 1e-9
WITHOUT, WITH = "one replica", "replicas"
GROUPS = {"tp_group": ("tp",), "pp_group": ("pp",), "dp_group": ("dp",)}
AXES = {"tp": "tensor", "pp": "pipeline", "dp": "data"}


def one_process(stages: list[tuple[Tensor, Tensor]], inputs: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The gradients of both matrices of every stage for the mean squared error of the whole batch."""
    leaves = [tuple(weight.clone().requires_grad_() for weight in stage) for stage in stages]
    for columns, rows in leaves:
        inputs = torch.relu(inputs @ columns) @ rows
    mse_loss(inputs, targets).backward()
    return [(columns.grad, rows.grad) for columns, rows in leaves]  # type: ignore[misc]


def _make(case: Case, rng: Random) -> Task:
    grid, width, num_microbatches = grid_of(case), case["numbers"], case["microbatches"]
    rows = case["rows"] * num_microbatches
    tp, pp, dp = (grid.sizes[name] for name in ("tp", "pp", "dp"))
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    wide = 2 * tp * width
    stages = [(drawn(width, wide) / width**0.5, drawn(wide, width) / wide**0.5) for _ in range(pp)]
    inputs, targets = drawn(rows * dp, width), drawn(rows * dp, width)
    gradients = one_process(stages, inputs, targets)
    args, expected, most = [], [], []
    for rank in range(grid.world):
        place = grid.coordinates(rank)
        own, replica = [_cut(pair[place["pp"]], tp, place["tp"]) for pair in (stages, gradients)], place["dp"]
        parts = [one.chunk(dp)[replica].clone() for one in (inputs, targets)]
        args.append([*own[0], *parts, num_microbatches])
        expected.append((_loss(stages, *parts) if place["pp"] == pp - 1 else None, own[1]))
        most.append(_most_bytes(grid, place, 8 * rows * width, 8 * sum(part.numel() for part in own[0])))
    made, mine = groups_by_rank(grid, GROUPS)
    return Task("hybrid_step", grid.world, task_inputs(args, mine), expected, made, {"most": most}, keeps_inputs=True)


def _cut(pair: tuple[Tensor, Tensor], tp: int, place: int) -> tuple[Tensor, Tensor]:
    """A rank's columns of the first matrix and rows of the second."""
    return pair[0].chunk(tp, 1)[place].clone(), pair[1].chunk(tp, 0)[place].clone()


def _loss(stages: list[tuple[Tensor, Tensor]], inputs: Tensor, targets: Tensor) -> float:
    for columns, rows in stages:
        inputs = torch.relu(inputs @ columns) @ rows
    return mse_loss(inputs, targets).item()


def _most_bytes(grid: Grid, place: dict[str, int], activation: int, weights: int) -> dict[str, float]:
    """The bytes that each rank must send on each axis: partial sums (tp), activations (pp), weight gradients (dp)."""
    first, last = place["pp"] == 0, place["pp"] == grid.sizes["pp"] - 1
    return {
        "tp": 2 * ring_all_reduce_bytes(grid.sizes["tp"], activation),
        "pp": activation * ((not last) + (not first)),
        "dp": ring_all_reduce_bytes(grid.sizes["dp"], weights),
    }


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    for rank, (loss, gradients) in enumerate(task.expected):
        reported = reply.ranks[rank]
        value = reported.get("value")
        received = value.get("plain") if isinstance(value, dict) else None
        if not isinstance(received, list | tuple) or len(received) != 3:
            return f"Rank {rank} must return three values: the loss (None before the last stage) and two gradients."
        problem = _wrong_loss(rank, received[0], loss)
        for name, one, expected in zip(("columns", "rows"), received[1:], gradients, strict=True):
            problem = problem or _wrong_gradient(rank, name, one, expected, grid_of(case))
        if problem := problem or touched_input(rank, reported, task):
            return problem
    return _wrong_bill(task, reply, grid_of(case)) or _not_a_pipeline(case, reply)


def _not_a_pipeline(case: Case, reply: Reply) -> str | None:
    """Report a stage that sends another number of activations, or waits for a gradient before its second one."""
    grid, num_microbatches = grid_of(case), case["microbatches"]
    for rank in range(grid.world):
        stages, stage = grid.group_of(rank, "pp"), grid.coordinates(rank)["pp"]
        if stage + 1 == len(stages):
            continue
        kinds = [call.kind for call in calls_of(reply, rank) if call.peer == stages[stage + 1]]
        if kinds.count("send") != num_microbatches:
            return (
                f"Right, but rank {rank} sends {kinds.count('send')} messages to the next stage for "
                f"{num_microbatches} microbatches: send one activation for each."
            )
        if kinds[:2] != ["send"] * min(2, num_microbatches) + ["recv"] * (num_microbatches < 2):
            return (
                f"Right, but rank {rank} waits for a gradient before it sends its second activation, so only one stage "
                "works at a time: run more forwards first."
            )
    return None


def _wrong_loss(rank: int, received: Any, expected: float | None) -> str | None:
    if expected is None:
        return None if received is None else f"Rank {rank} is not in the last stage and has no loss: return None."
    number = received.item() if isinstance(received, Tensor) and received.numel() == 1 else received
    if type(number) is not float or not abs(number - expected) <= TOLERANCE * max(1.0, expected):
        return f"The loss on rank {rank} is not the mean squared error of its replica's part of the batch."
    return None


def _wrong_gradient(rank: int, name: str, received: Any, expected: Tensor, grid: Grid) -> str | None:
    if not isinstance(received, Tensor) or received.shape != expected.shape or received.dtype != expected.dtype:
        return f"On rank {rank}, the gradient of {name} must have the same shape, {list(expected.shape)}, and dtype."
    if (received - expected).abs().max() <= TOLERANCE * expected.abs().max():
        return None
    where = f"The gradient of {name} on rank {rank}, which is at {_at(grid.coordinates(rank))}"
    ratio = float((received * expected).sum() / (expected * expected).sum())
    if ratio > 0 and (received - ratio * expected).abs().max() <= 1e-6 * received.abs().max():
        return f"{where}, has the right direction but is {ratio:.4g} times as large as that of one process."
    return f"{where}, is not that of one process on the whole batch. Which ranks have the missing part?"


def _at(place: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in place.items())


def _wrong_bill(task: Task, reply: Reply, grid: Grid) -> str | None:
    for rank, most in enumerate(task.facts["most"]):
        sent = {axis: 0.0 for axis in AXES}
        for call in calls_of(reply, rank):
            among = call.members if call.peer is None else [rank, call.peer]
            axis = next((name for name in AXES if set(among) <= set(grid.group_of(rank, name))), None)
            if axis is None:
                return (
                    f"Rank {rank} calls {call.kind} among {sorted(among)}, which is not within one of its three groups."
                )
            sent[axis] += call.sent_bytes
        for axis, expected in most.items():
            if sent[axis] > expected + 64:
                return (
                    f"Rank {rank} sends {size(sent[axis])} on the {AXES[axis]} axis, but {size(expected)} would be "
                    "enough."
                )
    least = sum(most["pp"] + most["tp"] / 2 + most["dp"] for most in task.facts["most"])
    return carried_too_little(reply, int(0.98 * least))


def _draw(rng: Random) -> list[Case]:
    """Each axis with one, two and three ranks, and each axis as the innermost; a middle stage."""
    cases: list[Case] = []
    for sizes, num_microbatches in (
        ({"pp": 2, "tp": 2, "dp": 1}, rng.randint(2, 3)),
        ({"dp": 2, "pp": 3, "tp": 1}, rng.randint(4, 6)),
        ({"tp": 3, "pp": 1, "dp": 2}, rng.randint(2, 4)),
        ({"pp": 2, "dp": 2, "tp": 2}, rng.randint(1, 3)),
    ):
        part, num = WITHOUT if sizes["dp"] == 1 else WITH, rng.randint(3, 7)
        case = {"sizes": sizes, "numbers": num, "rows": rng.randint(2, 5), "microbatches": num_microbatches}
        cases.append(case | {"part": part})
    return cases


CHECK = Check(
    exercise="week09.hybrid-step",
    points=3,
    names=("hybrid_step",),
    public=(
        {"sizes": {"tp": 2, "dp": 1, "pp": 2}, "numbers": 4, "rows": 3, "microbatches": 3, "part": WITHOUT},
        {"sizes": {"tp": 2, "dp": 2, "pp": 2}, "numbers": 4, "rows": 3, "microbatches": 2, "part": WITH},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=(*MASKED, "shardlab.collectives", "shardlab.data_parallel", "shardlab.pipeline_parallel"),
    timeout=40.0,
    parts={WITHOUT: 1 / 2, WITH: 1 / 2},
    hints=(
        "Each axis communicates at its own time: tp inside the stage, pp before and after it, dp once at the end, on "
        "gradients. Run all forwards and keep (x, y) of each, then all backwards in the same order.",
        "The stage is reduce_from_tp(relu(copy_to_tp(x) @ columns) @ rows), both over tp_group; a received tensor "
        "needs requires_grad_(), and its .grad goes back to the previous stage. Each microbatch adds 1/m of its loss.",
        "Then all_reduce both gradients over dp_group and divide by its size. Use no other group: its ranks have "
        "different weights.",
    ),
)
