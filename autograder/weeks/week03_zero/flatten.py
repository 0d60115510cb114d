"""Tensors end to end with padding, and back; no ranks."""

from __future__ import annotations

import math
from random import Random

import torch

from autograder.checks.base import Answer, Case, Check, Task, whole_numbers
from autograder.checks.formulas import failed, value_of
from autograder.checks.groups import dtype_of
from autograder.checks.shards import MASKED, padded

LAYERS = [[32, 56], [32], [1, 32], [1]]  # 1857 numbers


def _make(case: Case, rng: Random) -> Task:
    tensors = [whole_numbers(rng, math.prod(shape), dtype_of(case)).reshape(shape) for shape in case["shapes"]]
    flat = padded(tensors, case["num_ranks"])
    if case["part"] == "flatten":
        return Task("flatten_and_pad", 1, inputs=[[[tensors, case["num_ranks"]]]], expected=[flat], groups=[])
    like = [torch.zeros_like(tensor) for tensor in tensors]  # shapes alone: the numbers are in the vector
    return Task("unflatten", 1, inputs=[[[flat, like]]], expected=[tensors], groups=[])


def _judge(case: Case, task: Task, answer: Answer) -> str | None:
    if problem := failed(answer):
        return problem
    got, due = value_of(answer), task.expected[0]
    return _judge_flat(case, got, due) if case["part"] == "flatten" else _judge_list(got, due)


def _judge_flat(case: Case, got: object, due: torch.Tensor) -> str | None:
    if not isinstance(got, torch.Tensor) or got.dim() != 1 or got.dtype != due.dtype:
        return f"Return one flat vector of {str(due.dtype).removeprefix('torch.')}, the dtype of the tensors."
    num = sum(math.prod(shape) for shape in case["shapes"])
    if got.numel() != due.numel():
        return (
            f"{num} numbers over {case['num_ranks']} ranks: the vector has {got.numel()} elements where {due.numel()} "
            f"are due, {due.numel() // case['num_ranks']} a rank, {due.numel() - num} of them padding."
        )
    if not torch.equal(got[:num], due[:num]):
        return "The numbers are not in order: the first tensor row by row, then the second, …"
    return None if torch.equal(got, due) else "The padding at the end must be zeros."


def _judge_list(got: object, due: list[torch.Tensor]) -> str | None:
    if not isinstance(got, list | tuple) or len(got) != len(due):
        return f"unflatten() must return a list of {len(due)} tensors, one for each that was laid out."
    for place, (one, expected) in enumerate(zip(got, due, strict=True)):
        if not isinstance(one, torch.Tensor) or one.shape != expected.shape:
            return f"Tensor {place} must have the shape {list(expected.shape)}."
        if not torch.equal(one, expected):
            return f"Tensor {place} has wrong numbers: where in the vector does it begin?"
    return None


def _draw(rng: Random) -> list[Case]:
    some = [
        {"shapes": [[rng.randint(2, 9), 4], [], [4 * rng.randint(1, 5)]], "num_ranks": 4},  # three zeros
        {"shapes": [[rng.randint(2, 5), 4], [8]], "num_ranks": 4},  # nothing to pad
        {"shapes": [[1], [2]], "num_ranks": 7, "dtype": "bfloat16"},  # fewer numbers than ranks
        {"shapes": [[2 * rng.randint(3, 20) + 1, 5], [0], [3, 2, 2]], "num_ranks": 2, "dtype": "float64"},
        {"shapes": [[5]], "num_ranks": 1},
    ]
    return [case | {"part": part} for part in ("flatten", "unflatten") for case in some]


CHECK = Check(
    exercise="week03.flatten",
    points=2,
    names=("flatten_and_pad", "unflatten"),
    public=(
        {"shapes": LAYERS, "num_ranks": 2, "part": "flatten"},
        {"shapes": LAYERS, "num_ranks": 4, "part": "flatten"},
        {"shapes": [[2, 4], [8]], "num_ranks": 4, "part": "flatten"},
        {"shapes": [[1], [2]], "num_ranks": 7, "dtype": "bfloat16", "part": "flatten"},
        {"shapes": LAYERS, "num_ranks": 4, "part": "unflatten"},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    parts={"flatten": 1 / 2, "unflatten": 1 / 2},
    hints=(
        "All numbers in order, then as few zeros as make the length a multiple of num_ranks. On the way back, walk "
        "along the vector size by size.",
        "The padding is -total % num_ranks; in Python the remainder of a negative number is not negative.",
        "torch.cat of every tensor.flatten() and new_zeros(padding); back: a running index, or split and view_as.",
    ),
)
