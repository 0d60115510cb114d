"""The backward of a stage of linear layers by hand: first the gradient of its input, later those of its weights.

Values are small whole numbers, so that products and sums are exact in any order.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import torch

from autograder.checks.base import Case, Check, Reply, Task, whole_numbers, wrong_value
from autograder.checks.formulas import trouble_in_call, value_of

ROWS = 5


def _draw_stage(case: Case, rng: Random) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
    """Draws the weights, the input of each layer, and the gradient of the stage's output."""
    sizes = case["sizes"]
    weights = [whole_numbers(rng, a * b).reshape(a, b).clamp(-2, 2) for a, b in pairwise(sizes)]
    inputs = [whole_numbers(rng, ROWS * sizes[0]).reshape(ROWS, -1)]
    for weight in weights[:-1]:
        inputs.append((inputs[-1] @ weight).relu())
    return weights, inputs, whole_numbers(rng, ROWS * sizes[-1]).reshape(ROWS, -1)


def _arrived(
    weights: list[torch.Tensor], inputs: list[torch.Tensor], gradient: torch.Tensor
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The gradients of the stage's input and of each layer's output, computed by autograd."""
    leaf = inputs[0].clone().requires_grad_()
    outputs, value = [], leaf
    for layer, weight in enumerate(weights):
        value = value.relu() @ weight if layer else value @ weight
        outputs.append(value)
    first, *arrived = torch.autograd.grad(outputs[-1], [leaf, *outputs[:-1]], gradient)
    return first, [*arrived, gradient]


def _make(case: Case, rng: Random) -> Task:
    weights, inputs, gradient = _draw_stage(case, rng)
    first, arrived = _arrived(weights, inputs, gradient)
    if case["part"] == "I":
        given, expected, call = [weights, inputs, gradient], (first, arrived), "input_gradient"
    else:
        expected = [x.T @ g for x, g in zip(inputs, arrived, strict=True)]
        given, call = [inputs, arrived], "weight_gradients"
    return Task(call=call, ranks=1, inputs=[[given]], expected=[expected], groups=[])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = value_of(reply), task.expected[0]
    if case["part"] == "W":
        return _each(received, expected, "the gradient of weight")
    if not isinstance(received, list | tuple) or len(received) != 2:
        return "input_gradient() must return two things: the gradient of the stage's input, and the list `arrived`."
    problem = wrong_value(0, received[0], expected[0], "the gradient of the stage's input")
    return _in_words(problem) or _each(received[1], expected[1], "the gradient that arrived at the output of layer")


def _each(received: Any, expected: list[torch.Tensor], what: str) -> str | None:
    if not isinstance(received, list | tuple) or len(received) != len(expected):
        return f"Return a list of {len(expected)} tensors, one per layer: {what} 0, 1, ..."
    problems = (
        wrong_value(0, mine, right, f"{what} {n}")
        for n, (mine, right) in enumerate(zip(received, expected, strict=True))
    )
    return _in_words(next((problem for problem in problems if problem), None))


def _in_words(problem: str | None) -> str | None:
    return problem and problem.removeprefix("On rank 0, ").capitalize()


def _draw(rng: Random) -> list[Case]:
    """Stages of one to four layers. No layer is square, so that a transposed matrix is noticed."""
    stages = (rng.sample(range(2, 9), layers + 1) for layers in (1, 2, 3, 4))
    return [{"sizes": sizes, "part": part} for sizes in stages for part in ("I", "W")]


CHECK = Check(
    exercise="week08.split-backward",
    points=2,
    names=("input_gradient", "weight_gradients"),
    public=tuple({"sizes": sizes, "part": part} for sizes in ([2, 3, 2], [4, 6, 5, 3]) for part in ("I", "W")),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    parts={"I": 2 / 3, "W": 1 / 3},
    hints=(
        "y = x @ W. Given g, the gradient of y, the gradient of x needs g and W's transpose, but not x itself.",
        "Backward through one layer: g @ W.T. Through the ReLU before it: multiply by 0 where the layer's input is 0.",
        "From the last layer to the first: save g; g = g @ W.T; then g = g * (inputs[layer] > 0), unless layer is 0.",
    ),
)
