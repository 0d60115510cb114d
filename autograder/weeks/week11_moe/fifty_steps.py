"""A bias that sees only counts balances a skewed router within 50 steps; judged on tokens that it has not seen."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import torch
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, trouble
from autograder.weeks.week11_moe._shared import MASKED, one_rank, value_on

STEPS, LAST, TARGET = 50, 10, 1.2
TOKENS, FRESH, HIDDEN, EXPERTS = 1024, 8192, 16, 16
SPREAD, SKEW, FAR = 0.35, 1.2, 4.0  # of logits: between tokens, between experts, and of one hot or cold expert
SKEWED, HOT, COLD = "skewed", "hot", "cold"


def skewed_logits(part: str, rng: Random) -> tuple[Tensor, Tensor]:
    """Logits [50, 1024, 16] of a router that prefers some experts, and [8192, 16] for other tokens.

    SKEWED: random skew. HOT, COLD: half that skew, and one expert is every token's first choice, or no token's.
    """
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    router = torch.randn(HIDDEN, EXPERTS, generator=generator)
    skew = torch.randn(EXPERTS, generator=generator)
    skew = (skew - skew.mean()) / skew.std() * SKEW
    if part != SKEWED:
        skew = skew / 2
        skew[rng.randrange(EXPERTS)] = FAR if part == HOT else -FAR
    x = torch.randn(STEPS * TOKENS + FRESH, HIDDEN, generator=generator)
    logits = x @ (SPREAD * router / router.norm(dim=0)) + skew
    return logits[:-FRESH].reshape(STEPS, TOKENS, EXPERTS), logits[-FRESH:]


def fullest(logits: Tensor, bias: Tensor, k: int) -> float:
    """The number of choices of the fullest expert, divided by the mean."""
    experts = (logits.sigmoid() + bias).topk(k, -1).indices
    return (EXPERTS * torch.bincount(experts.flatten(), minlength=EXPERTS).max() / experts.numel()).item()


def _make(case: Case, rng: Random) -> Task:
    batches, fresh = skewed_logits(case["part"], rng)
    return one_rank("balanced", [batches, case["k"]], None, keeps_inputs=False, fresh=fresh)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply, ()):
        return problem
    biases = value_on(reply, 0)
    if not isinstance(biases, Tensor) or biases.shape != (STEPS, EXPERTS) or not biases.isfinite().all():
        return f"balanced must return the bias after each step, finite numbers of shape [{STEPS}, {EXPERTS}]."
    fresh, k = task.facts["fresh"], case["k"]
    ratios = [fullest(fresh, bias, k) for bias in biases[-LAST:].float()]
    mean = sum(ratios) / LAST
    if mean <= TARGET:
        return None
    begun = fullest(fresh, torch.zeros(EXPERTS), k)
    rises = sum(after > before for before, after in pairwise(ratios))
    why = (
        "It has not arrived: use larger steps at first."
        if rises < LAST / 4
        else "It oscillates: use smaller steps at the end."
    )
    return (
        f"On a {case['part']} router, the fullest expert started with {begun:.2f} times the mean. With your biases of "
        f"the last {LAST} steps it has {mean:.2f} on new tokens; the target is {TARGET}. {why}"
    )


CASES = tuple({"part": part, "k": 2} for part in (SKEWED, HOT, COLD))
CHECK = Check(
    exercise="week11.fifty-steps",
    points=3,
    optional=True,
    names=("balanced",),
    public=CASES,
    draw=lambda rng: [dict(case) for case in CASES],
    make=_make,
    judge=_judge,
    masked=MASKED,
    parts={SKEWED: 1 / 3, HOT: 1 / 3, COLD: 1 / 3},
    timeout=30.0,
    hints=(
        "Plot the fullest expert at each step for a rate of 0.01 and of 0.1. What is wrong with each of them?",
        "Use large steps first and small ones at the end, or steps proportional to the error, (mean − load) / mean.",
        "rate = 0.1 · 0.01^(step/50) with the sign, or 0.1 falling to 0.005 with the relative error, which needs a "
        "limit where an expert has many times the mean.",
    ),
)
