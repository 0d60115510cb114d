"""Two ways to balance: a loss with its gradient, and a bias that moves by the sign of the load error.

Counts are integers, some above 2^24, where float32 cannot represent neighboring integers. The number of experts never
divides the number of choices: with even shares the gradient would be zero, and an answer would only contain rounding.
"""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble, wrong_value
from autograder.weeks.week11_moe._shared import MASKED, drawn, one_rank, value_on, wrong_tensors

LOSS, BIAS = "loss", "bias"
WHY = {
    "the loss": "E times the sum over experts of share of choices times mean score; it is 1 if the load is even.",
    "the gradient of the scores": "The share of choices is a constant; the gradient flows through the mean score.",
}


def loss_by_definition(scores: Tensor, experts: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of Switch Transformers, equations 4 to 6, and the gradient of the scores, in float64."""
    leaf = scores.double().requires_grad_()
    shares = [(experts == expert).sum().item() / experts.numel() for expert in range(scores.shape[1])]
    means = (leaf / leaf.sum(-1, keepdim=True)).mean(0)
    loss = sum(scores.shape[1] * share * mean for share, mean in zip(shares, means, strict=True))
    assert isinstance(loss, Tensor)
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


def moved(bias: Tensor, load: list[int], rate: float) -> Tensor:
    """Moves the bias up for experts below the mean load and down for those above; the loads are integers."""
    total, num = sum(load), len(load)
    signs = [(total > num * one) - (total < num * one) for one in load]
    return bias + rate * torch.tensor(signs, dtype=bias.dtype)


def _make(case: Case, rng: Random) -> Task:
    num = case["experts"]
    if case["part"] == BIAS:
        load = _loads(case, rng)
        bias = drawn(rng, num) / 10
        expected = moved(bias, load, case["rate"])
        return one_rank("moved_bias", [bias, torch.tensor(load), case["rate"]], expected)
    logits = drawn(rng, case["tokens"], num) + torch.linspace(0, 2, num)
    scores = logits.sigmoid() if case["sigmoid"] else logits.softmax(-1)
    experts = scores.topk(case["k"], -1).indices
    loss, gradient = loss_by_definition(scores, experts)
    expected = {"the loss": loss.float(), "the gradient of the scores": gradient.float()}
    return one_rank("loss_step", [scores, experts], expected)


def _loads(case: Case, rng: Random) -> list[int]:
    """Draws counts near `around`; the first is exactly the mean."""
    around, half = case["around"], (case["experts"] - 1) // 2
    apart = [rng.randint(1, 3 if around > 1000 else around) for _ in range(half)]
    return [around, *(around + one for one in apart), *(around - one for one in apart)]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply, ()):
        return problem
    received = value_on(reply, 0)
    if case["part"] == LOSS:
        problem = wrong_tensors(0, received, task.expected[0], WHY)
    elif problem := wrong_value(0, received, task.expected[0], "the bias", relative=1e-6):
        problem += " Move up by rate below the mean and down above it; leave it unchanged at the mean."
        if case["around"] > 1 << 24:
            problem += " These counts are above 2^24, where float32 merges neighboring integers."
    return problem or touched_input(0, reply.ranks[0], task)


def _draw(rng: Random) -> list[Case]:
    """Both scores, one choice and several; loads nearly even and not, and larger than float32 can count."""

    def loss(sigmoid: bool, k: int) -> Case:
        experts = rng.randint(5, 9)
        return {"tokens": experts * rng.randint(2, 4) + 1, "experts": experts, "k": k, "sigmoid": sigmoid, "part": LOSS}

    def bias(around: int, rate: float) -> Case:
        return {"experts": 2 * rng.randint(2, 5) + 1, "around": around, "rate": rate, "part": BIAS}

    return [
        loss(False, 1),
        loss(False, rng.randint(2, 4)),
        loss(True, rng.randint(2, 4)),
        bias(rng.randint(5, 300), 0.001),
        bias(rng.randint(5, 300), rng.choice([0.01, 0.02])),
        bias((1 << 25) + 2 * rng.randint(1, 1000) + 1, 0.1),
    ]


CHECK = Check(
    exercise="week11.balance",
    points=2,
    names=("loss_step", "moved_bias"),
    public=(
        {"tokens": 5, "experts": 2, "k": 1, "sigmoid": False, "part": LOSS},
        {"tokens": 17, "experts": 6, "k": 3, "sigmoid": True, "part": LOSS},
        {"experts": 5, "around": 100, "rate": 0.001, "part": BIAS},
        {"experts": 7, "around": (1 << 25) + 1, "rate": 0.1, "part": BIAS},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={LOSS: 1 / 2, BIAS: 1 / 2},
    timeout=15.0,
    hints=(
        "You need two vectors of E numbers that each sum to 1: each expert's share of the choices, and its share of "
        "the scores.",
        "share = bincount / number of choices; mean = (scores / each token's sum of scores).mean(0). For the bias: "
        "the sign of (mean load − load). In which dtype are counts exact?",
        "E * (share * mean).sum(); bias + rate * torch.sign(load.sum() - ____ * load), in integers.",
    ),
)
