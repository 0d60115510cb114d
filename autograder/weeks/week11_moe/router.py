"""The k best experts of each token: chosen by score plus bias, weighted by score only, with the gradient of the logits.

A token's choices may come in any order: they are compared as rows over all experts.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble
from autograder.checks.groups import dtype_of
from autograder.weeks.week11_moe._shared import MASKED, clear_cut, drawn, one_rank, value_on, wrong_tensors

NAMES = ("the experts", "the weights", "the gradient of the logits")
WHY = {
    "the chosen experts": "Choose experts by score plus bias.",
    "the weights": "Weights are scores without the bias; if renormalized, a token's k weights sum to 1.",
    "the gradient of the logits": "It flows only through the weights, including everything they are divided by.",
}
COARSE = 2e-2  # for bfloat16: the gradient of the logits has their dtype


def scores_of(logits: Tensor, *, sigmoid: bool) -> Tensor:
    """The score of each expert."""
    return logits.sigmoid() if sigmoid else logits.softmax(-1)


def by_definition(case: Case, logits: Tensor, bias: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    """Rows over all experts: which are chosen, their weights, and the gradient of the logits, in float64."""
    leaf = logits.double().requires_grad_()
    scores = scores_of(leaf, sigmoid=case["sigmoid"])
    experts = (scores.detach() + bias).topk(case["k"], -1).indices
    chosen = torch.zeros(logits.shape, dtype=torch.bool).scatter_(-1, experts, True)
    weights = scores * chosen
    if case["renormalise"]:
        weights = weights / weights.sum(-1, keepdim=True)
    (of_logits,) = torch.autograd.grad(weights, leaf, gradient.double())
    return {
        "the chosen experts": chosen.long(),
        "the weights": weights.detach().float(),
        "the gradient of the logits": of_logits.to(logits.dtype),
    }


def _make(case: Case, rng: Random) -> Task:
    tokens, experts, k = case["tokens"], case["experts"], case["k"]
    bias = drawn(rng, experts) / 4 if case["biased"] else torch.zeros(experts)
    logits = drawn(rng, 40 * tokens, experts, dtype=dtype_of(case)) + case.get("shift", 0)
    logits = clear_cut(logits, k, lambda rows: scores_of(rows.double(), sigmoid=case["sigmoid"]) + bias, tokens)
    gradient = drawn(rng, tokens, experts)
    args = [logits, bias, k, case["sigmoid"], case["renormalise"], gradient]
    return one_rank("router_step", args, by_definition(case, logits, bias, gradient))


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply, ()):
        return problem
    received = value_on(reply, 0)
    if not isinstance(received, list | tuple) or len(received) != len(NAMES):
        return f"Return {', '.join(NAMES)}, in this order."
    experts, weights, of_logits = received
    if problem := _not_choices(case, experts, weights):
        return problem
    empty = torch.zeros(case["tokens"], case["experts"])
    rows = [empty.long().scatter_(-1, experts, 1), empty.scatter_(-1, experts, weights), of_logits]
    room = {"the gradient of the logits": COARSE} if case.get("dtype") == "bfloat16" else {}
    return wrong_tensors(0, rows, task.expected[0], WHY, rooms=room) or touched_input(0, reply.ranks[0], task)


def _not_choices(case: Case, experts: Any, weights: Any) -> str | None:
    """The problem if these are not k different experts per token, each with a float32 weight."""
    shape = [case["tokens"], case["k"]]
    for name, one, dtype in (("experts", experts, torch.int64), ("weights", weights, torch.float32)):
        if not isinstance(one, Tensor) or list(one.shape) != shape or one.dtype != dtype:
            came = f"{list(one.shape)} of {str(one.dtype)[6:]}" if isinstance(one, Tensor) else type(one).__name__
            return f"The {name} must be a tensor of shape {shape} and dtype {str(dtype)[6:]}, not {came}."
    if experts.numel() and not 0 <= int(experts.min()) <= int(experts.max()) < case["experts"]:
        return f"Expert numbers go from 0 to {case['experts'] - 1}; yours go from {experts.min()} to {experts.max()}."
    if any(len(set(row)) < len(row) for row in experts.tolist()):
        return "A token has the same expert twice: choose k different ones."
    return None


def _draw(rng: Random) -> list[Case]:
    """Both scores, renormalized or not, with a bias and without; all experts chosen; large logits; bfloat16."""

    def case(sigmoid: bool, renormalise: bool, biased: bool, **more: object) -> Case:
        sizes = {"tokens": rng.randint(6, 20), "experts": rng.randint(5, 12), "k": rng.randint(2, 4)}
        return sizes | {"sigmoid": sigmoid, "renormalise": renormalise, "biased": biased} | more

    return [
        case(False, False, False),
        case(False, True, False, shift=150),
        case(True, True, True),
        case(True, False, True, k=1),
        case(False, True, True),
        case(True, True, False, experts=5, k=5),
        case(True, True, True, dtype="bfloat16"),
    ]


TINY = {"tokens": 2, "experts": 4, "k": 2}
CHECK = Check(
    exercise="week11.router",
    points=3,
    names=("router_step",),
    public=(
        TINY | {"sigmoid": False, "renormalise": False, "biased": False},
        {"tokens": 12, "experts": 8, "k": 3, "sigmoid": False, "renormalise": True, "biased": False, "shift": 150},
        {"tokens": 12, "experts": 8, "k": 2, "sigmoid": True, "renormalise": True, "biased": True},
        {
            "tokens": 12,
            "experts": 8,
            "k": 2,
            "sigmoid": True,
            "renormalise": False,
            "biased": True,
            "dtype": "bfloat16",
        },
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=15.0,
    hints=(
        "You need two tensors: one to choose experts by, and one for their weights. The bias belongs in only one of "
        "them.",
        "scores = score(logits.float()); experts = (scores + bias).topk(k, -1).indices; the weights are the scores at "
        "these indices. Use gather, not the values of topk.",
        "weights = scores.gather(-1, experts); if renormalise: weights / weights.sum(-1, keepdim=____).",
    ),
)
