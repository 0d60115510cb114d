"""A balance loss attached to a layer's output: its gradient arrives, with its coefficient and no other factor."""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble
from autograder.weeks.week11_moe._shared import MASKED, clear_cut, drawn, one_rank, value_on, wrong_tensors

WHY = {
    "the output": "Attaching the loss must not change the layer's output.",
    "the gradient of the router": "Does the loss flow? With which coefficient, and with which other factor?",
    "the gradient of the experts": "The balance loss must not change the gradient of the layer's output.",
}


def by_addition(
    x: Tensor, target: Tensor, router: Tensor, scales: Tensor, k: int, coefficient: float
) -> dict[str, Tensor]:
    """Output and gradients where coefficient times the loss is added to the training loss, in float64."""
    router, scales = (one.double().requires_grad_() for one in (router, scales))
    scores = (x.double() @ router.T).softmax(-1)
    weights, experts = scores.topk(k, -1)
    y = (weights.unsqueeze(-1) * scales[experts]).sum(1) * x
    share = torch.bincount(experts.flatten(), minlength=len(router)) / experts.numel()
    balance = len(router) * (share * scores.mean(0)).sum()
    total = (y - target).square().mean() + coefficient * balance
    of_router, of_scales = torch.autograd.grad(total, (router, scales))
    return dict(zip(WHY, [y.detach().float(), of_router.float(), of_scales.float()], strict=True))


def _make(case: Case, rng: Random) -> Task:
    num, hidden, k, tokens = case["experts"], case["hidden"], case["k"], case["tokens"]
    router, scales = drawn(rng, num, hidden), drawn(rng, num, hidden)
    router = router + torch.linspace(-0.3, 0.3, num).unsqueeze(1)  # some experts are more popular
    x = clear_cut(drawn(rng, 8 * tokens, hidden) + 0.3, k, lambda rows: (rows @ router.T).softmax(-1), tokens)
    args = [x, drawn(rng, tokens, hidden), router, scales, k, case["coefficient"]]
    return one_rank("flow_step", args, by_addition(*args))


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply, ()):
        return problem
    problem = wrong_tensors(0, value_on(reply, 0), task.expected[0], WHY)
    return problem or touched_input(0, reply.ranks[0], task)


def _draw(rng: Random) -> list[Case]:
    """One choice and several; coefficients below and above 1."""

    def case(k: int, coefficient: float) -> Case:
        sizes = {"tokens": rng.randint(12, 40), "experts": rng.randint(5, 8), "hidden": rng.randint(4, 6)}
        return sizes | {"k": k, "coefficient": coefficient}

    return [case(1, 0.5), case(2, rng.choice([0.25, 0.75])), case(3, 2.0)]


CHECK = Check(
    exercise="week11.flow",
    points=2,
    names=("flow_step",),
    public=(
        {"tokens": 12, "experts": 4, "hidden": 4, "k": 1, "coefficient": 0.5},
        {"tokens": 30, "experts": 6, "hidden": 5, "k": 2, "coefficient": 0.25},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=15.0,
    hints=(
        "The line has three mistakes: its result is thrown away, it has a factor too many, and one that is missing.",
        "backward: return gradient, and the loss's share of the total, which is 1.",
        "return WithLoss.apply(y, ____ * balance_loss(scores, experts))",
    ),
)
