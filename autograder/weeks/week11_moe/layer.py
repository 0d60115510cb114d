"""A layer of experts: which choices are dropped, rows by expert and back, all gradients, and no unchosen rows computed.

Expected values come from all experts on all tokens, in float64. Peak memory, as the kernel reports it, shows whether a
layer computes only chosen rows: all experts on all tokens keep E/k times as much for the backward.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, one_hot

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble, wrong_value
from autograder.checks.training import any_peak_too_high
from autograder.jobs import trained
from autograder.weeks.week11_moe._shared import MASKED, drawn, one_rank, value_on, wrong_tensors

DROPS, VALUES, MEMORY = "drops", "values", "memory"
LONG = {"tokens": 2048, "hidden": 16, "width": 256, "experts": 32, "k": 2, "rows": 2048, "by_score": False}
AT_ONCE = 8  # [chosen rows, width] tensors that may be alive together; the backward of a sorted layer has four
GRADIENTS = ("x", "weights", "up", "down", "shared_up", "shared_down")
WHY = {
    "y": "A token's output is the shared expert's, plus weight times expert output for each choice that is kept.",
    "the gradient of weights": "A dropped choice has a gradient of 0.",
    "the gradient of up": "An expert without tokens has gradients of 0.",
}


def kept(experts: Tensor, weights: Tensor, rows: int, *, by_score: bool) -> Tensor:
    """Which choices [T, K] are kept: the first `rows` in each expert's queue, ordered by token or by weight."""
    places = [(t, j) for t in range(len(experts)) for j in range(experts.shape[1])]
    if by_score:
        places.sort(key=lambda at: -weights[at].item())
    room: dict[int, int] = {}
    stays = torch.zeros_like(experts, dtype=torch.bool)
    for at in places:
        expert = int(experts[at])
        room[expert] = room.get(expert, rows) - 1
        stays[at] = room[expert] >= 0
    return stays


def by_definition(args: list[Any], stays: Tensor) -> dict[str, Tensor]:
    """The output and the gradients named in GRADIENTS, from all experts on all tokens, in float64."""
    x, experts, weights, up, down, shared_up, shared_down, gradient = args
    leaves = [one.double().requires_grad_() for one in (x, weights, up, down, shared_up, shared_down)]
    x, weights, up, down, shared_up, shared_down = leaves
    each = gelu(x @ up) @ down  # [E, T, H]
    of_expert = (one_hot(experts, len(up)) * (weights * stays).unsqueeze(-1)).sum(1)  # [T, E]
    y = gelu(x @ shared_up) @ shared_down + torch.einsum("te,eth->th", of_expert, each)
    gradients = torch.autograd.grad(y, leaves, gradient.double())
    named = {f"the gradient of {name}": one.float() for name, one in zip(GRADIENTS, gradients, strict=True)}
    return {"y": y.detach().float()} | named


def _make(case: Case, rng: Random) -> Task:
    tokens, hidden, width, num_experts, k = (case[name] for name in ("tokens", "hidden", "width", "experts", "k"))
    wanted = torch.rand(tokens, num_experts, generator=torch.Generator().manual_seed(rng.randrange(1 << 31)))
    if case.get("skewed"):
        wanted += torch.linspace(0.8, 0, num_experts)
        wanted[:, -1] -= 2  # no token chooses it
    weights, experts = wanted.topk(k, -1)
    if case["part"] == DROPS:
        stays = kept(experts, weights, case["rows"], by_score=case["by_score"])
        return one_rank("kept", [experts, weights, case["rows"], case["by_score"]], stays)
    x, gradient = drawn(rng, tokens, hidden), drawn(rng, tokens, hidden)
    up, down = drawn(rng, num_experts, hidden, width) / hidden**0.5, drawn(rng, num_experts, width, hidden) / width**0.5
    shared = [drawn(rng, hidden, width) / hidden**0.5, drawn(rng, width, hidden) / width**0.5]
    given = [x, experts, weights, up, down, *shared]
    stays = kept(experts, weights, case["rows"], by_score=case["by_score"])
    task = one_rank(
        "layer_step",
        [*given, case["rows"], case["by_score"], gradient],
        by_definition([*given, gradient], stays),
        keeps_inputs=case["part"] == VALUES,
    )
    if case["part"] == MEMORY:
        task.inputs[0]["reports"] = [trained.RESULT_ALONE]
    return task


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    received = value_on(reply, 0)
    if case["part"] == DROPS:
        return _wrong_drops(case, received, task.expected[0]) or touched_input(0, reply.ranks[0], task)
    relative = 1e-5 if case["part"] == VALUES else 1e-4
    if problem := wrong_tensors(0, received, task.expected[0], WHY, relative=relative):
        return problem
    if case["part"] == VALUES:
        return touched_input(0, reply.ranks[0], task)
    most = AT_ONCE * 4 * case["tokens"] * case["k"] * case["width"]
    return any_peak_too_high(reply, most, "the chosen rows of each expert: does an expert see tokens of others?")


def _wrong_drops(case: Case, received: Any, stays: Tensor) -> str | None:
    if problem := wrong_value(0, received, stays, "kept"):
        return problem.replace("numbers", "flags").split(": number")[0] + _why_dropped(case)
    return None


def _why_dropped(case: Case) -> str:
    first = "largest weights" if case["by_score"] else "first tokens"
    return f". Each expert keeps the {case['rows']} choices with the {first}."


def _draw(rng: Random) -> list[Case]:
    """Drops by token, by weight, and none; experts without tokens; one choice; no tokens at all; memory."""

    def case(part: str, rows: int, by_score: bool = False, **more: object) -> Case:
        sizes = {"tokens": rng.randint(20, 40), "hidden": rng.randint(3, 6), "width": rng.randint(5, 9), "experts": 6}
        return sizes | {"k": 2, "rows": rows, "by_score": by_score, "part": part} | more

    return [
        case(DROPS, rng.randint(4, 7), skewed=True),
        case(DROPS, rng.randint(4, 7), by_score=True, skewed=True),
        case(DROPS, 1, by_score=True, k=3),
        case(DROPS, 99),
        case(VALUES, rng.randint(4, 7), skewed=True),
        case(VALUES, rng.randint(4, 7), by_score=True, skewed=True, k=3),
        case(VALUES, 99, k=1, experts=5),
        case(VALUES, 3, tokens=0),
        LONG | {"part": MEMORY},
    ]


CHECK = Check(
    exercise="week11.layer",
    points=3,
    names=("kept", "layer_step"),
    public=(
        {"tokens": 6, "experts": 4, "hidden": 2, "width": 2, "k": 2, "rows": 2, "by_score": False, "part": DROPS},
        {"tokens": 20, "experts": 4, "hidden": 2, "width": 2, "k": 2, "rows": 4, "by_score": True, "part": DROPS}
        | {"skewed": True},
        {"tokens": 24, "experts": 6, "hidden": 4, "width": 6, "k": 2, "rows": 5, "by_score": False, "part": VALUES}
        | {"skewed": True},
        {"tokens": 0, "experts": 4, "hidden": 4, "width": 6, "k": 2, "rows": 5, "by_score": False, "part": VALUES},
        LONG | {"part": MEMORY},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={DROPS: 1 / 3, VALUES: 1 / 3, MEMORY: 1 / 3},
    trains=True,
    timeout=30.0,
    hints=(
        "Number the choices t·k + j. Sorted by expert, they are the rows; the token is the number divided by k.",
        "kept: for each expert take (experts == e).nonzero(), sort it by weight if by_score, and cut it after `rows`. "
        "The layer: sort kept choices by expert (stable); rows are x[token]; split by bincount; index_add back.",
        "experts.masked_fill(~stays, E).flatten().argsort(stable=True)[: stays.sum()]; torch.cat of gelu(rows @ up[e]) "
        "@ down[e] over all E experts, empty ones too; shared.index_add(0, token, ____).",
    ),
)
