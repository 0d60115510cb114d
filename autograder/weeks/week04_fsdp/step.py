"""A forward and a backward in which no more than one or two units of weights are gathered at a time.

Values are compared within 1e-4 of the largest. The memory case compares the kernel's peak-memory mark with the bound.
"""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs import traffic
from torch import Tensor

from autograder.checks.base import (
    Case,
    Check,
    Reply,
    Task,
    calls_of,
    carried_too_little,
    carried_too_much,
    size,
    touched_input,
    wrong_value,
)
from autograder.checks.groups import members_of, working
from autograder.checks.shards import MASKED, rows_of, slices
from autograder.checks.training import any_peak_too_high, failed, training_task
from autograder.jobs import trained

RELATIVE = 1e-4
LARGE = {"width": 448, "units": 64}  # 64 weights of 0.8 MB

WHOLES = 3 / 4  # of the model at once: correct answers need half (a quarter is gradient slices), wrong ones all of it


def weights_of(rng: Random, num_units: int, width: int, inner: int = 0) -> list[Tensor]:
    """Weights whose products neither vanish nor saturate tanh: square, or width × inner and the reverse in turn."""
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    both = ((width, inner or width), (inner or width, width))
    shapes = [both[number % 2] for number in range(num_units)]
    return [torch.randn(*shape, generator=generator) * shape[0] ** -0.5 for shape in shapes]


def one_process(
    weights: list[Tensor], uses: list[int], inputs: list[Tensor], gradients: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Compute in one process each rank's output, and the mean over ranks of each weight's gradient."""
    leaves = [weight.clone().requires_grad_() for weight in weights]
    outputs = []
    for x, gradient in zip(inputs, gradients, strict=True):
        output = x
        for number in uses:
            output = torch.tanh(output @ leaves[number])
        output.backward(gradient / len(inputs))
        outputs.append(output.detach())
    return outputs, [leaf.grad for leaf in leaves if leaf.grad is not None]


def chain_task(case: Case, rng: Random, call: str, uses: list[int], *, tells_uses: bool):
    """A task for a chain of layers with sliced weights. Every rank has a different batch and gradient."""
    members, width = members_of(case), case["width"]
    weights = weights_of(rng, max(uses) + 1, width, case.get("inner", 0))
    told = [[list(weight.shape) for weight in weights], uses] if tells_uses else []
    rows = case.get("rows", 3)
    inputs = [rows_of(rng, rows, width) for _ in members]
    gradients = [rows_of(rng, rows, weights[uses[-1]].shape[1]) for _ in members]
    outputs, means = one_process(weights, uses, inputs, gradients)
    cut = [slices([weight], len(members)) for weight in weights]
    wanted = [slices([mean], len(members)) for mean in means]
    args, expected = {}, {}
    for place, rank in enumerate(members):
        mine = [parts[place].clone() for parts in cut]
        args[rank] = [mine, *told, inputs[place], gradients[place]]
        expected[rank] = (outputs[place], [parts[place] for parts in wanted])
    reports = (trained.RESULT_ALONE,) if case.get("part") == "memory" else ()
    unit_bytes = cut[0][0].nbytes * len(members)
    return training_task(
        case,
        call,
        args,
        expected,
        reports=reports,
        reads_calls=case.get("part") != "memory",
        keeps_inputs=case.get("part") != "memory",
        unit_bytes=unit_bytes,
        num_units=len(uses),
    )


def wrong_output(task: Task, reply: Reply, rank: int, *, untouched: bool = True) -> str | None:
    """Compare a rank's (output, list of gradient slices) with the expected pair, and check for changed inputs."""
    reported, (output, wanted) = reply.ranks[rank], task.expected[rank]
    value = reported.get("value", {}).get("plain")
    if not isinstance(value, list | tuple) or len(value) != 2 or not isinstance(value[1], list | tuple):
        return f"On rank {rank}, return two things: the output, and the list of gradient slices."
    if problem := wrong_value(rank, value[0], output, "the output", relative=RELATIVE):
        return problem
    if len(value[1]) != len(wanted):
        many = f"{len(value[1])} gradient slices where {len(wanted)} are expected"
        return f"On rank {rank} there are {many}, one per weight."
    for number, (received, expected) in enumerate(zip(value[1], wanted, strict=True)):
        if problem := wrong_value(rank, received, expected, f"the gradient slice of unit {number}", relative=RELATIVE):
            return problem
    return touched_input(rank, reported, task) if untouched else None


def _make(case: Case, rng: Random) -> Task:
    return chain_task(case, rng, "zero3_step", list(range(case["units"])), tells_uses=False)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := failed(reply):
        return problem
    for rank in working(task):
        if problem := wrong_output(task, reply, rank, untouched=case["part"] == "values"):
            return problem
        if case["part"] == "values" and (problem := _wrong_bytes(task, reply, rank)):
            return problem
    if case["part"] == "values":
        return None
    return _wrong_traffic(task, reply) or _held_at_once(task, reply)


def _wrong_traffic(task: Task, reply: Reply) -> str | None:
    """Check the kernel's byte count (two gathers, one reduction per unit) where there are too many packets to read."""
    num, unit_bytes, members = task.facts["num_units"], task.facts["unit_bytes"], len(working(task))
    most = members * num * traffic.zero_bytes(members, unit_bytes, 3)
    least = most - members * traffic.ring_all_gather_bytes(members, unit_bytes)
    return carried_too_little(reply, int(0.98 * least)) or carried_too_much(reply, int(most))


def _wrong_bytes(task: Task, reply: Reply, rank: int) -> str | None:
    """Check that each unit is gathered twice (the last perhaps once) and reduced once.

    This does not check which call is a gather, because a rank can send one under the other's tag. The kernel's memory
    mark shows how much is gathered at a time.
    """
    num, unit_bytes, members = task.facts["num_units"], task.facts["unit_bytes"], len(working(task))
    mine = sum(call.sent_bytes for call in calls_of(reply, rank))
    most = num * traffic.zero_bytes(members, unit_bytes, 3)
    least = most - traffic.ring_all_gather_bytes(members, unit_bytes)
    if mine > most + 64:
        return f"Rank {rank} sends {size(mine)} where {size(most)} are enough: two gathers and one reduction per unit."
    if mine < least:
        return (
            f"Rank {rank} sends {size(mine)} where {size(least)} must be sent: a unit that is freed after its "
            "forward must be gathered again for its backward."
        )
    return None


def _held_at_once(task: Task, reply: Reply) -> str | None:
    """Check that no rank held the whole model or all of its gradients at once."""
    whole = task.facts["num_units"] * task.facts["unit_bytes"]
    why = f"its slices and a few of {task.facts['num_units']} units. When is each freed?"
    return any_peak_too_high(reply, WHOLES * whole, why)


def _draw(rng: Random) -> list[Case]:
    return [
        {"ranks": 2, "width": 2 * rng.randint(2, 5) + 1, "units": rng.randint(3, 5), "part": "values"},
        {"ranks": 3, "width": 3 * rng.randint(1, 2) + 1, "units": 6, "rows": 5, "part": "values"},  # two zeros
        {"ranks": 4, "width": 3 * rng.randint(1, 3), "units": 2, "subgroup": [0, 1, 3], "part": "values"},  # no zeros
    ]


CHECK = Check(
    exercise="week04.step",
    points=3,
    names=("zero3_step",),
    public=(
        {"ranks": 4, "width": 3, "units": 2, "subgroup": [1, 3], "part": "values"},
        {"ranks": 4, **LARGE, "part": "memory"},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={"values": 1 / 2, "memory": 1 / 2},
    trains=True,
    timeout=60.0,
    hints=(
        "The forward needs a weight for only one line. What must it keep for the backward? Not the weight.",
        "Run the forward under torch.no_grad(), and keep each layer's input. Backward from the last unit: gather "
        "again, run the layer once more with autograd, reduce, and drop every reference to the weight.",
        "x = x.detach().requires_grad_(); weight = gathered(…).requires_grad_(); "
        "torch.tanh(x @ weight).backward(gradient); then mean_slice(weight.grad, …), and gradient = x.grad.",
    ),
)
