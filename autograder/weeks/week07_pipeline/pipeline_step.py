"""One training step of a pipeline on real ranks: its loss and every rank's gradient are those of one process.

A microbatch may be shorter than the others. Numbers are float64 and compared within 1e-9 of the largest.
"""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble
from autograder.checks.groups import POINT_TO_POINT, each_bill, group_task, members_of, working
from autograder.checks.order import matched_by_tags

EQUAL, UNEVEN = "equal microbatches", "a short microbatch"
TOLERANCE = 1e-9


def one_process(weights: list[Tensor], inputs: Tensor, targets: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The loss of the whole batch and each weight's gradient, without a pipeline."""
    leaves = [weight.clone().requires_grad_() for weight in weights]
    for weight in leaves:
        inputs = torch.tanh(inputs @ weight)
    loss = mse_loss(inputs, targets)
    loss.backward()
    return loss.detach(), [weight.grad for weight in leaves if weight.grad is not None]


def _make_step(case: Case, rng: Random) -> Task:
    members, width = members_of(case), case["numbers"]
    rows = [case["rows"]] * case["microbatches"]
    rows[-1] = case.get("last_rows", case["rows"])
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = [drawn(width, width) / width**0.5 for _ in members]
    inputs, targets = drawn(sum(rows), width), drawn(sum(rows), width)
    loss, gradients = one_process(weights, inputs, targets)
    cut = [[part.clone() for part in batch.split(rows)] for batch in (inputs, targets)]
    num_bytes = inputs.numel() * inputs.element_size()
    ends = (members[0], members[-1])
    return group_task(
        case,
        "pipeline_step",
        {rank: [weight, *cut] for rank, weight in zip(members, weights, strict=True)},
        {rank: (loss if rank == ends[1] else None, grad) for rank, grad in zip(members, gradients, strict=True)},
        keeps_inputs=True,
        sent_bytes={rank: num_bytes * sum(rank != end for end in ends) for rank in members},
        messages=2 * case["microbatches"],
    )


def _judge_step(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply, POINT_TO_POINT):
        return problem
    for rank in working(task):
        reported = reply.ranks[rank]
        value = reported.get("value")
        pair = value.get("plain") if isinstance(value, dict) else None
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            return f"Rank {rank} must return two things: the loss (None before the last rank) and its gradient."
        loss, gradient = task.expected[rank]
        problem = _wrong_loss(rank, pair[0], loss) or _wrong_gradient(rank, pair[1], gradient, case["microbatches"])
        if problem := problem or touched_input(rank, reported, task):
            return problem
    return matched_by_tags(reply) or each_bill(
        task, reply, "an activation forward and a gradient back for each microbatch"
    )


def _wrong_loss(rank: int, received: object, expected: Tensor | None) -> str | None:
    if expected is None:
        return None if received is None else f"Rank {rank} has no loss: return None there."
    number = received.item() if isinstance(received, Tensor) and received.numel() == 1 else received
    if not isinstance(number, float) or not abs(number - expected.item()) <= TOLERANCE * max(1.0, expected.item()):
        return f"The loss on rank {rank} is not the mean over the whole batch."
    return None


def _wrong_gradient(rank: int, received: object, expected: Tensor, num_microbatches: int) -> str | None:
    if not isinstance(received, Tensor) or received.shape != expected.shape or received.dtype != expected.dtype:
        shape = list(expected.shape)
        return f"On rank {rank} the gradient must be a tensor of the weight's shape, {shape}, and its dtype."
    if (received - expected).abs().max() <= TOLERANCE * expected.abs().max():
        return None
    ratio = float((received * expected).sum() / (expected * expected).sum())
    if ratio > 0 and (received - ratio * expected).abs().max() <= 1e-6 * received.abs().max():
        return (
            f"The gradient on rank {rank} points the right way and is {ratio:.4g} times as long as one process's; "
            f"there are {num_microbatches} microbatches."
        )
    return f"The gradient on rank {rank} is not that of one process on the whole batch."


def _draw_step(rng: Random) -> list[Case]:
    equal = [
        {"ranks": 2, "numbers": rng.randint(2, 6), "microbatches": rng.randint(3, 6), "rows": rng.randint(2, 5)},
        {"ranks": 3, "numbers": rng.randint(2, 6), "microbatches": 2, "rows": rng.randint(2, 5)},
        {"ranks": 5, "numbers": 3, "microbatches": 3, "rows": 2, "subgroup": [1, 3]},
    ]
    uneven = [
        {"ranks": 2, "numbers": rng.randint(2, 6), "microbatches": 3, "rows": rng.randint(4, 6), "last_rows": 1},
        {"ranks": 3, "numbers": rng.randint(2, 6), "microbatches": 4, "rows": 3, "last_rows": 2},
    ]
    return [case | {"part": EQUAL} for case in equal] + [case | {"part": UNEVEN} for case in uneven]


CHECK = Check(
    exercise="week07.pipeline-step",
    points=3,
    names=("pipeline_step",),
    public=(
        {"ranks": 2, "numbers": 4, "microbatches": 4, "rows": 3, "part": EQUAL},
        {"ranks": 2, "numbers": 4, "microbatches": 3, "rows": 3, "last_rows": 1, "part": UNEVEN},
    ),
    draw=_draw_step,
    make=_make_step,
    judge=_judge_step,
    masked=("shardlab.pipeline_parallel.execution", "shardlab.pipeline_parallel.stages"),
    timeout=20.0,
    parts={EQUAL: 2 / 3, UNEVEN: 1 / 3},
    hints=(
        "Compare with one process: which number is right, which is not, and by which factor?",
        "Every microbatch adds its gradient to the weight's: M means are added where one mean is wanted.",
        "Before its backward, weight each microbatch's loss with its rows over the rows of the whole batch.",
    ),
)
