"""The gradients of all microbatches with DDP, ZeRO-2 and any list of slots, on stages of the check's own model."""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from shardlab.costs import traffic
from shardlab.own import step_bytes
from shardlab.own.step_bytes import COPIES, FLOAT, num_stages_of, stages_of
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, close, trouble
from autograder.weeks.week15_capstone_build import _trainer

ROWS = 8
WHY = {
    "split": "Sum over all microbatches; DDP and ZeRO-2 take the mean of it over ranks, ZeRO-2 a slice of that.",
}
BYTES = {
    "pp": "Send an activation to the next stage and a gradient to the previous one, per microbatch.",
    "dp": "DDP sums each gradient once, after the last microbatch; ZeRO-2 after each microbatch.",
    "cp": "Nothing is summed over cp yet, except with ZeRO-2.",
}


def output(x: Tensor, weight: Tensor) -> Tensor:
    """One block of the check's model, as in the page's `gradients_of`. x [rows, N], weight [N]."""
    return torch.tanh(x * weight)


def _make(case: Case, rng: Random) -> Task:
    recipe, generator = _trainer.recipe_of(case), torch.Generator().manual_seed(rng.randrange(1 << 31))
    num, num_stages = case["numbers"], num_stages_of(recipe)
    replicas = [tuple(place[axis] for axis in COPIES) for place in _trainer.places(recipe)]
    inputs = {
        one: [torch.randn(ROWS, num, generator=generator) for _ in range(recipe["microbatches"])]
        for one in sorted(set(replicas))
    }
    weights = [1 + 0.3 * torch.randn(num, generator=generator) for _ in range(num_stages)]
    alone = {one: _one_process(weights, mine) for one, mine in inputs.items()}
    args, expected, sent = [], [], []
    grid = _trainer.grid_of(recipe)
    for rank, place in enumerate(_trainer.places(recipe)):
        own, copies = stages_of(recipe, place["pp"]), grid.group_of(rank, *COPIES)
        units = {f"{stage} split": _padded(weights[stage], len(copies)) for stage in own}
        args.append([recipe, [[stage, [str(stage)]] for stage in own], num_stages, num, units, inputs[replicas[rank]]])
        losses, gradients = alone[replicas[rank]]
        if num_stages - 1 not in own:
            losses = 0.0
        if is_averaged(recipe):
            means = torch.stack([alone[replicas[other]][1] for other in copies]).mean(0)
            found = {f"{stage} split": _padded(means[stage], len(copies)) for stage in own}
            if recipe["zero"] == 2:
                at = copies.index(rank)
                found = {key: one.chunk(len(copies))[at] for key, one in found.items()}
        else:
            found = {f"{stage} split": _padded(gradients[stage], len(copies)) for stage in own}
        expected.append((losses, found))
        sent.append(_bytes_of(recipe, place, own, num))
    return _trainer.task_of("gradients_of", recipe, args, expected, sent)


def is_averaged(recipe: dict[str, Any]) -> bool:
    """Whether gradients are already means over the copies: DDP, ZeRO-2."""
    return recipe["zero"] == 2 or (recipe["zero"] == 0 and recipe["dp"] == _trainer.world_of(recipe))


def _bytes_of(recipe: dict[str, Any], place: dict[str, int], own: list[int], num: int) -> step_bytes.Sums:
    sums, last = step_bytes.Sums(recipe), num_stages_of(recipe) - 1
    away = sum(stage < last and stage + 1 not in own for stage in own) + sum(
        stage > 0 and stage - 1 not in own for stage in own
    )
    sums.add(("pp",), recipe["microbatches"] * away * ROWS * num * FLOAT)
    copies = _trainer.grid_of({**recipe, "tp": 1, "pp": 1}).world
    half = traffic.ring_all_gather_bytes(copies, len(own) * -(-num // copies) * copies * FLOAT)
    if is_averaged(recipe):
        sums.add(COPIES, half * (recipe["microbatches"] if recipe["zero"] == 2 else 2))
    return sums


def _one_process(weights: list[Tensor], inputs: list[Tensor]) -> tuple[float, Tensor]:
    """The sum of all losses, and the gradients of all stages [stages, N]."""
    leaves = [one.clone().requires_grad_() for one in weights]
    total = torch.zeros(())
    for x in inputs:
        for leaf in leaves:
            x = output(x, leaf)  # noqa: PLW2901 - from stage to stage
        total = total + x.sum()
    total.backward()
    return float(total.detach()), torch.stack([leaf.grad for leaf in leaves if leaf.grad is not None])


def _padded(flat: Tensor, num: int) -> Tensor:
    return torch.cat([flat, flat.new_zeros(-len(flat) % num)])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    recipe = _trainer.recipe_of(case)
    for rank, (loss, gradients) in enumerate(task.expected):
        received = _trainer.returned(reply, rank)
        if not isinstance(received, list | tuple) or len(received) != 2:
            return f"Rank {rank} must return a number and a dict of gradients."
        if problem := _trainer.wrong_units(rank, received[1], gradients, "the gradient", WHY):
            return problem
        if not (close(received[0], loss, _trainer.SAME) or (loss == 0.0 and received[0] == 0)):
            return f"On rank {rank} the sum of losses is {received[0]}, not {loss:.6g}: only the last stage has losses."
    return _trainer.wrong_bytes(recipe, task, reply, BYTES)


def _draw(rng: Random) -> list[Case]:
    def case(**sizes: Any) -> Case:
        return {"numbers": rng.randint(300, 500), "microbatches": rng.choice((3, 4)), **sizes}

    return [
        case(),
        case(dp=3),
        case(pp=3, schedule="gpipe"),
        case(dp=2, pp=2, schedule="zb-h1"),
        case(pp=2, schedule="interleaved", microbatches=4),
        case(dp=2, cp=2, zero=2),
        case(dp=2, cp=2),
        case(dp=2, zero=1),
    ]


CHECK = Check(
    exercise="week15.backward",
    points=3,
    names=("overlaps", "Losses", "backward", "gradients_of"),
    public=(
        {"numbers": 400, "microbatches": 2},
        {"numbers": 400, "microbatches": 3, "dp": 2},
        {"numbers": 401, "microbatches": 3, "dp": 2, "zero": 2},
        {"numbers": 400, "microbatches": 4, "pp": 2},
        {"numbers": 400, "microbatches": 4, "pp": 2, "cp": 2, "schedule": "zb-h1"},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=_trainer.MASKED,
    timeout=30.0,
    hints=(
        "There are three ways to compute the gradients, each with one call of your own functions: ddp_backward, "
        "zero2_backward, run_slots. Which recipes use which?",
        "ddp_backward needs a module that it can call with one microbatch and whose parameters are the units: Losses. "
        "Its `microbatches` may be indices. ZeRO-2 adds up the slices of its microbatches; run_slots needs "
        "weights(stage), the units whose block is in trainer.stages[____].",
        "gradients = {key: unit.grad for key, unit in trainer.units.items()}, then set every grad to None, or the next "
        "step adds to it. The loss is the sum of the losses that the module recorded or run_slots returned.",
    ),
)
