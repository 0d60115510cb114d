"""Norm and MLP on a part of the sequence: the values of one process, tensor parallelism's bytes, split activations.

Values are float64 and compared within 1e-9 of the largest. Only the kernel's peak-memory mark shows whether the norm
works on a part or on everything: in a long chain of layers each one keeps the input of its norm.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from shardlab.costs.traffic import ring_all_gather_bytes, ring_all_reduce_bytes, ring_reduce_scatter_bytes
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

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
from autograder.checks.training import any_peak_too_high, failed, training_task
from autograder.jobs import trained
from autograder.weeks.week06_sequence_parallel._shared import MASKED, times_as_long

VALUES, MEMORY = "values", "memory"
TOLERANCE = {VALUES: 1e-9, MEMORY: 1e-3}
WEIGHTS = ("gain", "shift", "columns", "rows")
LONG = {"ranks": 4, "length": 512, "batch": 1, "width": 256, "inner": 8, "layers": 16, "part": MEMORY}
WHOLES = 2.05  # activations per layer at the peak of a chain; measured: 1.8 to 2.05 if split, 2.6 with full norms


def one_process(layers: list[list[Tensor]], x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
    """The output, and the gradients of x and of every weight. x is (sequence, batch, hidden)."""
    leaf, leaves = x.clone().requires_grad_(), [[one.clone().requires_grad_() for one in layer] for layer in layers]
    y = leaf
    for gain, shift, columns, rows in leaves:
        y = y + gelu(layer_norm(y, gain.shape, gain, shift) @ columns) @ rows
    y.backward(gradient)
    return y.detach(), _grad(leaf), [[_grad(one) for one in layer] for layer in leaves]


def _grad(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad


def _make(case: Case, rng: Random) -> Task:
    members, width = members_of(case), case["width"]
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    dtype = torch.float32 if case["part"] == MEMORY else torch.float64

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    inner = case["inner"] * len(members)
    layers = [
        [1 + drawn(width) / 4, drawn(width) / 4, drawn(width, inner) / width**0.5, drawn(inner, width) / inner**0.5]
        for _ in range(case["layers"])
    ]
    x, gradient = (drawn(case["length"] * len(members), case["batch"], width) for _ in range(2))
    output, of_x, of_layers = one_process(layers, x, gradient)
    args, expected = {}, {}
    for place, rank in enumerate(members):
        cut = [_own(layer, len(members), place) for layer in layers]
        positions = [one.chunk(len(members))[place].clone() for one in (x, gradient)]
        args[rank] = [positions[0], cut, positions[1]]
        wanted = [_own(layer, len(members), place) for layer in of_layers]
        expected[rank] = (*(one.chunk(len(members))[place] for one in (output, of_x)), wanted)
    is_long = case["part"] == MEMORY
    return training_task(
        case,
        "block_step",
        args,
        expected,
        reports=(trained.RESULT_ALONE,) if is_long else (),
        reads_calls=not is_long,
        keeps_inputs=not is_long,
        activation=x.nbytes,
        norms=2 * width * x.element_size(),
    )


def _own(layer: list[Tensor], size: int, place: int) -> list[Tensor]:
    """A rank's weights of a layer, or their gradients: all of the norm's, columns of the first, rows of the second."""
    gain, shift, columns, rows = layer
    return [gain, shift, columns.chunk(size, 1)[place].clone(), rows.chunk(size, 0)[place].clone()]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := failed(reply):
        return problem
    for rank in working(task):
        if problem := _wrong_values(case, task, reply, rank):
            return problem
        if case["part"] == VALUES and (problem := touched_input(rank, reply.ranks[rank], task)):
            return problem
    if case["part"] == VALUES:
        return next((problem for rank in working(task) if (problem := _wrong_bill(case, task, reply, rank))), None)
    return _wrong_count(case, task, reply) or _held(case, task, reply)


def _wrong_values(case: Case, task: Task, reply: Reply, rank: int) -> str | None:
    (output, of_x, of_layers), received = task.expected[rank], _returned(reply, rank)
    if received is None or len(received) != 3 or not isinstance(received[2], list | tuple):
        return f"Rank {rank} must return three things: the output, the gradient of x, and the gradients of every layer."
    relative = TOLERANCE[case["part"]]
    for what, one, right in (("the output", received[0], output), ("the gradient of x", received[1], of_x)):
        if problem := wrong_value(rank, one, right, f"{what} of its positions", relative=relative):
            return problem
    if len(received[2]) != len(of_layers) or any(len(one) != len(WEIGHTS) for one in received[2]):
        return f"Rank {rank} must return four gradients for each of the {len(of_layers)} layers."
    for number, (layer, wanted) in enumerate(zip(received[2], of_layers, strict=True)):
        for at, (name, one, right) in enumerate(zip(WEIGHTS, layer, wanted, strict=True)):
            what = f"the gradient of {name} in layer {number}"
            if problem := wrong_value(rank, one, right, what, relative=relative):
                return f"{problem}{_why(task, reply, (number, at), right, one)}"
    return None


def _why(task: Task, reply: Reply, place: tuple[int, int], right: Tensor, mine: Any) -> str:
    """A hint on what the wrong gradient is: a part of the sum, or a multiple."""
    ratio = times_as_long(mine, right)
    if ratio and abs(ratio - 1) > 0.01:
        return f" All are {ratio:.4g} times what they should be. Should positions be summed or averaged?"
    parts = [_returned(reply, rank) for rank in working(task)]
    found = [one[2][place[0]][place[1]] for one in parts if one]
    alike = place[1] < 2 and len(found) == len(parts) and all(one.shape == right.shape for one in found)
    if alike and times_as_long(torch.stack(found).sum(0), right):
        return " It covers only this rank's own positions. Which ranks have the others?"
    return ""


def _returned(reply: Reply, rank: int) -> Any:
    value = reply.ranks[rank].get("value")
    received = value.get("plain") if isinstance(value, dict) else None
    return received if isinstance(received, list | tuple) else None


def _due(case: Case, task: Task) -> float:
    """Bytes that a rank sends: a gather and a scatter per layer and direction, and the norms' gradients once."""
    ranks, activation = len(working(task)), task.facts["activation"]
    both = ring_all_gather_bytes(ranks, activation) + ring_reduce_scatter_bytes(ranks, activation)
    return case["layers"] * (2 * both + ring_all_reduce_bytes(ranks, task.facts["norms"]))


def _wrong_bill(case: Case, task: Task, reply: Reply, rank: int) -> str | None:
    mine, expected = sum(call.sent_bytes for call in calls_of(reply, rank)), _due(case, task)
    why = "a gather and a scatter per layer and direction, as many bytes as two all-reduces, and the norms' gradients"
    if mine > expected + 64:
        return f"Right, but rank {rank} sends {size(mine)} where {size(expected)} are enough: {why}."
    if mine < 0.9 * expected:
        return f"Rank {rank} sends {size(mine)} where {size(expected)} must be sent: {why}."
    return None


def _wrong_count(case: Case, task: Task, reply: Reply) -> str | None:
    """Check the kernel's byte count for all ranks where there are too many packets to read."""
    total = int(_due(case, task) * len(working(task)))
    return carried_too_little(reply, int(0.9 * total)) or carried_too_much(reply, total)


def _held(case: Case, task: Task, reply: Reply) -> str | None:
    most = WHOLES * case["layers"] * task.facts["activation"]
    why = "if norms see only this rank's positions: look at what the first line of your layer works on"
    return any_peak_too_high(reply, most, why)


def _draw(rng: Random) -> list[Case]:
    """One, two, three and four ranks, a part of the world; one layer and several."""

    def case(ranks: int, layers: int, **more: object) -> Case:
        sizes = {"length": rng.randint(1, 3), "batch": rng.randint(1, 3), "width": rng.randint(4, 7)}
        return sizes | {"ranks": ranks, "inner": rng.randint(2, 4), "layers": layers, "part": VALUES} | more

    return [case(3, 2), case(4, 1, subgroup=[0, 3]), case(4, 2), case(2, 1, subgroup=[1])]


CHECK = Check(
    exercise="week06.block",
    points=3,
    names=("block_step",),
    public=(
        {"ranks": 2, "length": 1, "batch": 1, "width": 4, "inner": 2, "layers": 1, "part": VALUES},
        {
            "ranks": 4,
            "length": 2,
            "batch": 2,
            "width": 5,
            "inner": 2,
            "layers": 2,
            "subgroup": [1, 2, 3],
            "part": VALUES,
        },
        {"ranks": 1, "length": 1, "batch": 1, "width": 4, "inner": 2, "layers": 1, "part": VALUES},
        LONG,
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={VALUES: 2 / 3, MEMORY: 1 / 3},
    trains=True,
    timeout=60.0,
    hints=(
        "A norm works on one position at a time: it needs no other rank. A split matrix needs all positions. If the "
        "check of your two operators fails, fix them first, because this check uses them.",
        "norm on the part, gather, columns, gelu, rows, scatter; the residual is added to the part. Afterwards each "
        "norm weight has the gradient of this rank's positions: ____ them over the group.",
        "n = layer_norm(x, gain.shape, gain, shift); inner = gelu(gather_sequence(n, group=group) @ columns); x + "
        "scatter_sequence(inner @ rows, group=group). After the backward: for gain, shift, *_ in layers: …",
    ),
)
