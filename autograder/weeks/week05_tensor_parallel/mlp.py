"""Columns, then rows: one all-reduce forward, one backward, the second bias added once; gradients match one process."""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, whole_numbers
from autograder.checks.groups import group_task, members_of
from autograder.weeks.week05_tensor_parallel._shared import (
    LAYERS_MASKED,
    all_reduce_bytes,
    group_size,
    sent_too_little,
    sent_too_much,
    wrong_tensors,
)

NAMES = ("x", "up", "up_bias", "down", "down_bias")
MOST = 3  # largest input: products stay whole numbers that float32 represents exactly


def one_process(tensors: list[Tensor], gradient: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The output of the whole MLP, and the gradients of x and the four parameters."""
    leaves = [one.clone().requires_grad_() for one in tensors]
    x, up, up_bias, down, down_bias = leaves
    y = torch.relu(x @ up + up_bias) @ down + down_bias
    y.backward(gradient)
    return y.detach(), [leaf.grad for leaf in leaves if leaf.grad is not None]


def _make(case: Case, rng: Random) -> Task:
    members, inner = members_of(case), case["inner"]

    def drawn(*shape: int) -> Tensor:
        return whole_numbers(rng, torch.Size(shape).numel()).clamp(-MOST, MOST).reshape(shape)

    rows, hidden, wide = case["rows"], case["hidden"], sum(inner)
    whole = [drawn(rows, hidden), drawn(hidden, wide), drawn(wide), drawn(wide, hidden), 1 + drawn(hidden).abs()]
    gradient = drawn(rows, hidden)
    output, gradients = one_process(whole, gradient)
    args, expected = {}, {}
    for place, rank in enumerate(members):
        args[rank] = [*_parts(whole, inner, place), gradient.clone()]
        wanted = _parts(gradients, inner, place)
        named = {f"the gradient of {name}": one for name, one in zip(NAMES, wanted, strict=True)}
        expected[rank] = {"the output": output, **named}
    return group_task(case, "mlp_step", args, expected, keeps_inputs=True, x=whole[0], bias=whole[-1], output=output)


def _parts(tensors: list[Tensor], inner: list[int], place: int) -> list[Tensor]:
    """A rank's parts of x, up, up_bias, down and down_bias, or of their gradients."""
    x, up, up_bias, down, down_bias = tensors
    cut = [up.split(inner, 1)[place], up_bias.split(inner)[place], down.split(inner, 0)[place]]
    return [one.clone() for one in (x, *cut, down_bias)]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := wrong_tensors(task, reply):
        return problem + _biases(task, reply)
    due = all_reduce_bytes(group_size(case), task.facts["x"], task.facts["x"])
    why = "one all-reduce of the output forward, and one of the gradient of x backward"
    return sent_too_much(task, reply, due, why) or sent_too_little(task, reply, due, why)


def _biases(task: Task, reply: Reply) -> str:
    """A hint for an output that is off by a multiple of the bias."""
    for reported in reply.ranks:
        received = reported.get("value", {}).get("plain")
        output = received[0] if isinstance(received, list | tuple) and received else None
        if not isinstance(output, Tensor) or output.shape != task.facts["output"].shape:
            continue
        extra = (output - task.facts["output"]) / task.facts["bias"]
        times = extra.flatten()[0].round()
        if times and (extra == times).all():
            return f" The output has down_bias {1 + times.item():g} times. Which ranks add it, and when?"
    return ""


def _draw(rng: Random) -> list[Case]:
    """Equal and uneven parts, a part of the world, one rank; wide enough that gathered weights cost more."""
    few = {"rows": 2, "hidden": rng.randint(3, 5)}
    return [
        {"ranks": 2, "rows": 3, "hidden": rng.randint(3, 5), "inner": [rng.randint(6, 9)] * 2},
        {"ranks": 3, **few, "inner": [4, rng.randint(5, 6), 1]},
        {"ranks": 4, **few, "inner": [rng.randint(3, 5)] * 3, "subgroup": [0, 2, 3]},
        {"ranks": 2, **few, "inner": [rng.randint(3, 6)], "subgroup": [1]},
    ]


CHECK = Check(
    exercise="week05.mlp",
    points=3,
    names=("mlp_step",),
    public=(
        {"ranks": 2, "rows": 1, "hidden": 2, "inner": [2, 2]},
        {"ranks": 4, "rows": 2, "hidden": 3, "inner": [5, 3], "subgroup": [1, 3]},
        {"ranks": 1, "rows": 2, "hidden": 3, "inner": [4]},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=LAYERS_MASKED,
    timeout=15.0,
    hints=(
        "Walk through the figure: R, f, S, S, P, g, R. Where does each of the two biases belong?",
        "f on x before the columns, g on the result of the rows. up_bias is split like up; down_bias is replicated.",
        "inner = torch.relu(copy_to_tp(x, group=group) @ up + up_bias); return reduce_from_tp(inner @ down, ...) + ...",
    ),
)
