"""A layer that keeps only its inputs and is run again in the backward, with the same random numbers.

Values and the next random number are compared with plain autograd on the trusted side, from the same seed. The
kernel's peak-memory mark shows that nothing but the inputs is kept. Masks come from the layer's own generator, as in
Megatron: torch's checkpoint, which cannot be masked, restores only the global state and would draw new masks.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble, wrong_value
from autograder.checks.training import any_peak_too_high
from autograder.jobs import trained
from autograder.weeks.week06_sequence_parallel._shared import MASKED

VALUES, MEMORY = "values", "memory"
TOLERANCE = {VALUES: 1e-5, MEMORY: 1e-3}
LONG = {"rows": 1024, "width": 16, "inner": 1024, "layers": 10, "p": 0.25, "part": MEMORY}
WIDE = 4  # bytes per number; plain autograd keeps two such tensors of rows x inner per layer, and a mask
AT_ONCE = 10  # such tensors that may exist at once; the backward of one layer has seven
NAMES = ("the output", "the gradient of x", "the gradients of the layers", "the next random number")


def plain_autograd(x: Tensor, layers: list[list[Tensor]], gradient: Tensor, p: float, seed: int) -> list[Any]:
    """The result of `through_layers` when everything is kept."""
    generator = torch.Generator().manual_seed(seed)
    leaf, leaves = x.clone().requires_grad_(), [[one.clone().requires_grad_() for one in layer] for layer in layers]
    y = leaf
    for up, down in leaves:
        inner = gelu(y @ up)
        y = y + inner * (torch.rand(inner.shape, generator=generator) >= p) / (1 - p) @ down
    y.backward(gradient)
    following = torch.rand(1, generator=generator)
    return [y.detach(), leaf.grad, [[one.grad for one in layer] for layer in leaves], following]


def _make(case: Case, rng: Random) -> Task:
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    width, inner = case["width"], case["inner"]
    layers = [
        [
            torch.randn(width, inner, generator=generator) / width**0.5,
            torch.randn(inner, width, generator=generator) / inner**0.5,
        ]
        for _ in range(case["layers"])
    ]
    x, gradient = (torch.randn(case["rows"], width, generator=generator) for _ in range(2))
    args = [x, layers, gradient, case["p"], rng.randrange(1 << 30)]
    is_long = case["part"] == MEMORY
    mine = {"args": args, "groups": {}, "reports": [trained.RESULT_ALONE] if is_long else [], "calls": 1}
    expected = [plain_autograd(*args)]
    return Task("through_layers", 1, [mine], expected, groups=[], keeps_inputs=not is_long, reads_calls=False)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    reported, expected = reply.ranks[0], task.expected[0]
    value = reported.get("value")
    received = value.get("plain") if isinstance(value, dict) else None
    if not isinstance(received, list | tuple) or len(received) != len(NAMES):
        return f"Return four things: {', '.join(NAMES)}."
    if problem := _wrong(received, expected, TOLERANCE[case["part"]]):
        return problem
    if case["part"] == VALUES:
        return touched_input(0, reported, task)
    most = AT_ONCE * WIDE * case["rows"] * case["inner"]
    return any_peak_too_high(reply, most, "the intermediate results of one layer: look at what the forward keeps")


def _wrong(received: Any, expected: list[Any], relative: float) -> str | None:
    """Report the first value that differs. A wrong output has nothing to do with the backward, which runs later."""
    if problem := wrong_value(0, received[0], expected[0], "the output", relative=relative):
        return f"{problem} The forward must return what the function returns, from the current random state."
    again = "Were the same numbers dropped when the layer ran the second time?"
    if problem := wrong_value(0, received[1], expected[1], "the gradient of x", relative=relative):
        return f"{problem} {again}"
    if problem := _wrong_layers(received[2], expected[2], relative):
        return f"{problem} {again}"
    if problem := wrong_value(0, received[3], expected[3], "the next random number"):
        return f"{problem} After the backward the generator must continue where the forward left it."
    return None


def _wrong_layers(received: Any, expected: list[list[Tensor]], relative: float) -> str | None:
    pairs = received if isinstance(received, list | tuple) else []
    if len(pairs) != len(expected) or any(not isinstance(one, list | tuple) or len(one) != 2 for one in pairs):
        return f"Return two gradients for each of the {len(expected)} layers: of up and of down."
    for number, (layer, wanted) in enumerate(zip(pairs, expected, strict=True)):
        for name, one, right in zip(("up", "down"), layer, wanted, strict=True):
            if problem := wrong_value(0, one, right, f"the gradient of {name} in layer {number}", relative=relative):
                return problem
    return None


def _draw(rng: Random) -> list[Case]:
    """Several layers, a single layer, and one without dropout."""

    def case(layers: int, p: float) -> Case:
        sizes = {"rows": rng.randint(3, 9), "width": rng.randint(3, 9), "inner": rng.randint(9, 20)}
        return sizes | {"layers": layers, "p": p, "part": VALUES}

    return [case(3, 0.5), case(1, 0.1), case(2, 0.0), case(5, 0.75)]


CHECK = Check(
    exercise="week06.recompute",
    points=3,
    names=("through_layers",),
    public=({"rows": 4, "width": 3, "inner": 8, "layers": 2, "p": 0.5, "part": VALUES}, LONG),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={VALUES: 2 / 3, MEMORY: 1 / 3},
    trains=True,
    timeout=30.0,
    hints=(
        "What does the backward need to run the layer again exactly as before? Its inputs, and what else?",
        "forward: ctx.state = generator.get_state(), save the tensors, run. backward: save the current state, set "
        "the earlier one, run with torch.enable_grad() on detached tensors, set back ____.",
        "tensors = [one.detach().requires_grad_() for one in ctx.saved_tensors]; … ; "
        "return None, None, *torch.autograd.grad(output, tensors, gradient).",
    ),
)
