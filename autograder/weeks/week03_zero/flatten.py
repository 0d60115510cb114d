"""Flattening tensors with padding, and the way back. Runs without ranks."""

from __future__ import annotations

import math
from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, whole_numbers
from autograder.checks.formulas import trouble_in_call, value_of
from autograder.checks.groups import dtype_of
from autograder.checks.shards import MASKED, padded

LAYERS = [[32, 56], [32], [1, 32], [1]]  # 1857 numbers


def _make(case: Case, rng: Random) -> Task:
    tensors = [whole_numbers(rng, math.prod(shape), dtype_of(case)).reshape(shape) for shape in case["shapes"]]
    flat = padded(tensors, case["num_ranks"])
    if case["part"] == "flatten":
        return Task("flatten_and_pad", 1, inputs=[[[tensors, case["num_ranks"]]]], expected=[flat], groups=[])
    like = [torch.zeros_like(tensor) for tensor in tensors]  # only for their shapes: the numbers are in the vector
    return Task("unflatten", 1, inputs=[[[flat, like]]], expected=[tensors], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = value_of(reply), task.expected[0]
    return _judge_flat(case, received, expected) if case["part"] == "flatten" else _judge_list(received, expected)


def _judge_flat(case: Case, received: object, expected: torch.Tensor) -> str | None:
    if not isinstance(received, torch.Tensor) or received.dim() != 1 or received.dtype != expected.dtype:
        return f"Return one flat vector of {str(expected.dtype).removeprefix('torch.')}, the dtype of the tensors."
    num = sum(math.prod(shape) for shape in case["shapes"])
    if received.numel() != expected.numel():
        whole, ranks = expected.numel(), case["num_ranks"]
        return (
            f"{num} numbers over {ranks} ranks: the vector has {received.numel()} elements where {whole} are expected, "
            f"{whole // ranks} per rank, {whole - num} of them padding."
        )
    if not torch.equal(received[:num], expected[:num]):
        return "The numbers are in the wrong order: put the first tensor row by row, then the second, …"
    return None if torch.equal(received, expected) else "The padding at the end must be zeros."


def _judge_list(received: object, wanted: list[torch.Tensor]) -> str | None:
    if not isinstance(received, list | tuple) or len(received) != len(wanted):
        return f"unflatten() must return a list of {len(wanted)} tensors, one for each input tensor."
    for place, (one, expected) in enumerate(zip(received, wanted, strict=True)):
        if not isinstance(one, torch.Tensor) or one.shape != expected.shape:
            return f"Tensor {place} must have the shape {list(expected.shape)}."
        if not torch.equal(one, expected):
            return f"Tensor {place} has wrong numbers. Where in the vector does it begin?"
    return None


def _draw(rng: Random) -> list[Case]:
    """Only matrices and vectors, as the page says."""
    some = [
        {"shapes": [[rng.randint(2, 9), 4], [1], [4 * rng.randint(1, 5)]], "num_ranks": 4},  # three zeros
        {"shapes": [[rng.randint(2, 5), 4], [8]], "num_ranks": 4},  # nothing to pad
        {"shapes": [[1], [2]], "num_ranks": 7, "dtype": "bfloat16"},  # fewer numbers than ranks
        {"shapes": [[2 * rng.randint(3, 20) + 1, 5], [3, 4], [2]], "num_ranks": 2, "dtype": "float64"},
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
        "All numbers in order, then as few zeros as possible so that num_ranks divides the length. On the way back, "
        "step through the vector by the size of each tensor.",
        "The padding is -total % num_ranks; in Python the remainder of a negative number is not negative.",
        "torch.cat every tensor.flatten() and new_zeros(padding). Back: use a running index, or split and view_as.",
    ),
)
