"""A layer that keeps its inputs alone and is run again in the backward, with the same random numbers.

Values and the next random number are those of plain autograd on the trusted side, from the same seed. That nothing else
is kept shows in the kernel's mark of memory alone. Masks come from a generator of the layer's own, as Megatron's do:
torch's checkpoint, which cannot be masked, restores the global state alone and draws them again.
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
WIDE = 4  # bytes of a number; plain autograd keeps two such tensors of rows x inner per layer, and a mask
AT_ONCE = 10  # such tensors that may be there together; the backward of one layer has seven
NAMES = ("the output", "the gradient of x", "the gradients of the layers", "the next random number")


def plain_autograd(x: Tensor, layers: list[list[Tensor]], gradient: Tensor, p: float, seed: int) -> list[Any]:
    """What `through_layers` returns where everything is kept."""
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
    return any_peak_too_high(reply, most, "the inside of one layer: look at what the forward leaves behind")


def _wrong(received: Any, expected: list[Any], relative: float) -> str | None:
    """The first that differs; masks come before gradients, so a wrong output has nothing to do with the backward."""
    if problem := wrong_value(0, received[0], expected[0], "the output", relative=relative):
        return f"{problem} The forward must give what the function gives, from the random state that it finds."
    again = "Were the same numbers dropped when the layer ran again?"
    if problem := wrong_value(0, received[1], expected[1], "the gradient of x", relative=relative):
        return f"{problem} {again}"
    if problem := _wrong_layers(received[2], expected[2], relative):
        return f"{problem} {again}"
    if problem := wrong_value(0, received[3], expected[3], "the next random number"):
        return f"{problem} After the backward the generator must go on where the forward left it."
    return None


def _wrong_layers(received: Any, expected: list[list[Tensor]], relative: float) -> str | None:
    pairs = received if isinstance(received, list | tuple) else []
    if len(pairs) != len(expected) or any(not isinstance(one, list | tuple) or len(one) != 2 for one in pairs):
        return f"Return two gradients for each of the {len(expected)} layers, of up and of down."
    for number, (layer, wanted) in enumerate(zip(pairs, expected, strict=True)):
        for name, one, right in zip(("up", "down"), layer, wanted, strict=True):
            if problem := wrong_value(0, one, right, f"the gradient of {name} in layer {number}", relative=relative):
                return problem
    return None


def _draw(rng: Random) -> list[Case]:
    """Several layers, one alone, and one without dropout."""

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
        "What must the backward have to run the layer again exactly as it was? Its inputs, and what else decided?",
        "forward: ctx.state = generator.get_state(), save the tensors, run. backward: remember the state of now, set "
        "the one of then, run with torch.enable_grad() on detached tensors, set back ____.",
        "tensors = [one.detach().requires_grad_() for one in ctx.saved_tensors]; … ; "
        "return None, None, *torch.autograd.grad(output, tensors, gradient).",
    ),
)
