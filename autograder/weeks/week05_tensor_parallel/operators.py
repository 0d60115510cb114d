"""f and g as autograd Functions: each is the other's adjoint, for any memory layout and without changing its inputs.

The page's `both_ways` gives an operator transposed tensors, forward and backward, on some of the ranks. Inputs are
whole numbers, so sums are exact. An operator that works in place corrupts the x that is added to its result.
"""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, whole_numbers
from autograder.checks.groups import dtype_of, group_task, members_of
from autograder.weeks.week05_tensor_parallel._shared import (
    OPERATORS_MASKED,
    all_reduce_bytes,
    group_size,
    sent_too_little,
    sent_too_much,
    wrong_tensors,
)

F, G = "f", "g"


def adjoints(x: list[Tensor], y: list[Tensor], operator: str) -> list[tuple[Tensor, Tensor]]:
    """For each rank, x + operator(x), and the gradient of x if the gradient of the result is y."""
    if operator == F:
        return [(x_own + x_own, y_own + sum(y)) for x_own, y_own in zip(x, y, strict=True)]
    return [(x_own + sum(x), y_own + y_own) for x_own, y_own in zip(x, y, strict=True)]


def _make(case: Case, rng: Random) -> Task:
    """For f every rank has the same x, for g the same gradient."""
    members, shape = members_of(case), (case["rows"], case["columns"])

    def drawn() -> Tensor:
        return whole_numbers(rng, case["rows"] * case["columns"], dtype_of(case)).reshape(shape)

    alike, own = drawn(), [drawn() for _ in members]
    x, y = ([alike] * len(members), own) if case["part"] == F else (own, [alike] * len(members))
    transposed = [case.get("transposed", False) and place % 2 == 1 for place in range(len(members))]
    args, expected = {}, {}
    for place, (rank, pair) in enumerate(zip(members, adjoints(x, y, case["part"]), strict=True)):
        result, gradient = (_laid_out(one, transposed[place]) for one in pair)
        args[rank] = [_laid_out(x[place], transposed[place]), _laid_out(y[place], transposed[place]), transposed[place]]
        expected[rank] = {"the output": result, "the gradient of x": gradient}
    return group_task(case, f"{case['part']}_both_ways", args, expected, keeps_inputs=True, x=alike)


def _laid_out(tensor: Tensor, transposed: bool) -> Tensor:
    return (tensor.T if transposed else tensor).clone(memory_format=torch.contiguous_format)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    name, other = case["part"], "backward" if case["part"] == F else "forward"
    if problem := wrong_tensors(task, reply):
        if case.get("transposed") and "numbers of" in problem:
            problem += (
                " Here every second rank has a transposed tensor: an all-reduce adds memory element by element. "
                "In which order is yours stored, and which tensor received the sum?"
            )
        return problem
    due = all_reduce_bytes(group_size(case), task.facts["x"])
    why = f"{name} makes one all-reduce, in its {other}"
    return sent_too_much(task, reply, due, why) or sent_too_little(task, reply, due, why)


def _draw(rng: Random) -> list[Case]:
    """Both operators: transposed on some ranks, in bfloat16, in a part of the world, and with one rank."""

    def cases(part: str) -> list[Case]:
        sizes = [{"rows": rng.randint(2, 5), "columns": rng.randint(6, 9), "part": part} for _ in range(4)]
        return [
            {"ranks": 2, **sizes[0], "transposed": True},
            {"ranks": 3, **sizes[1], "dtype": "bfloat16"},
            {"ranks": 4, **sizes[2], "subgroup": [1, 2, 3], "transposed": True},
            {"ranks": 2, **sizes[3], "subgroup": [1]},
        ]

    return [*cases(F), *cases(G)]


CHECK = Check(
    exercise="week05.operators",
    points=3,
    names=("f_both_ways", "g_both_ways"),
    public=(
        {"ranks": 2, "rows": 1, "columns": 4, "part": F},
        {"ranks": 4, "rows": 2, "columns": 5, "subgroup": [0, 1, 3], "transposed": True, "part": F},
        {"ranks": 2, "rows": 1, "columns": 4, "part": G},
        {"ranks": 4, "rows": 2, "columns": 5, "subgroup": [0, 1, 3], "transposed": True, "part": G},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=OPERATORS_MASKED,
    parts={F: 1 / 2, G: 1 / 2},
    timeout=15.0,
    hints=(
        "f copies x to all ranks, so its gradients are summed; g sums, so its gradient is copied to all ranks.",
        "Four methods, two of which send nothing. All-reduce your own contiguous copy.",
        "def summed(x, group): total = x.clone(memory_format=torch.contiguous_format); dist.all_reduce(total, ...); "
        "return total. f: forward x.view_as(x), backward summed(gradient, ctx.group), None. g: the other way round.",
    ),
)
