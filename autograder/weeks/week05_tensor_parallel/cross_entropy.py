"""The loss for logits whose columns are split. Only three numbers per token are sent, and padding is ignored."""

from __future__ import annotations

from random import Random

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from autograder.checks.base import Case, Check, Reply, Task, calls_of
from autograder.checks.groups import group_task, members_of, working
from autograder.weeks.week05_tensor_parallel._shared import (
    LAYERS_MASKED,
    group_size,
    normal,
    sent_too_little,
    wrong_tensors,
)

TOLERANCE = 1e-5
NUMBERS_PER_TOKEN, FP32 = 3, 4
PADDING = 50.0  # the value in columns beyond the vocabulary: more than any logit
LARGE = 200.0  # exp(200) is infinite in float32


def one_process(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each token, and the gradient of their mean, in float64."""
    leaf = logits.double().requires_grad_()
    losses = cross_entropy(leaf, targets, reduction="none")
    (gradient,) = torch.autograd.grad(losses.mean(), leaf)
    return losses.detach().float(), gradient.float()


def _make(case: Case, rng: Random) -> Task:
    members, tokens, vocabulary = members_of(case), case["tokens"], case["vocabulary"]
    columns = -(-vocabulary // len(members))
    logits = 2 * normal(rng, tokens, vocabulary, dtype=torch.float32)
    if case.get("large"):
        logits += LARGE * normal(rng, tokens, 1, dtype=torch.float32).sign()
    targets = torch.tensor([rng.randrange(vocabulary) for _ in range(tokens)])
    targets[:2] = torch.tensor([0, vocabulary - 1])  # always on the first rank and on the last
    losses, gradient = one_process(logits, targets)
    padding = (0, columns * len(members) - vocabulary)
    parts = pad(logits, padding, value=PADDING + case.get("large", 0) * LARGE).split(columns, 1)
    wanted = pad(gradient, padding).split(columns, 1)
    args = {rank: [parts[n].clone(), targets.clone(), vocabulary] for n, rank in enumerate(members)}
    expected = {rank: {"the losses": losses, "the gradient": wanted[n].clone()} for n, rank in enumerate(members)}
    return group_task(case, "vocabulary_loss", args, expected, keeps_inputs=True)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := wrong_tensors(task, reply, relative=TOLERANCE):
        return problem
    most, num_ranks = NUMBERS_PER_TOKEN * FP32 * case["tokens"], group_size(case)
    for rank in working(task):
        given = _numbers_given(reply, rank, num_ranks)
        if given > most + 16:
            per_token = given / FP32 / case["tokens"]
            return (
                f"Right, but rank {rank} sends {per_token:.3g} numbers per token where 3 are enough. What do "
                "the other ranks need to know about your logits?"
            )
    return sent_too_little(task, reply, (num_ranks > 1) * most / 2, "three numbers per token are reduced")


def _numbers_given(reply: Reply, rank: int, num_ranks: int) -> float:
    """Bytes that a rank contributes to its calls: its own part of an all-gather, the whole tensor otherwise."""
    calls = calls_of(reply, rank)
    return sum(call.payload_bytes / (num_ranks if call.kind == "all_gather" else 1) for call in calls)


def _draw(rng: Random) -> list[Case]:
    """Even and odd vocabularies, a rank with only padding, large logits, a part of the world, one rank."""
    tokens = rng.randint(4, 9)
    return [
        {"ranks": 2, "tokens": tokens, "vocabulary": 2 * rng.randint(6, 12)},
        {"ranks": 3, "tokens": tokens, "vocabulary": 3 * rng.randint(5, 9) + 1, "large": True},
        {"ranks": 4, "tokens": rng.randint(4, 9), "vocabulary": 5},
        {"ranks": 4, "tokens": tokens, "vocabulary": 3 * rng.randint(5, 9) + 2, "subgroup": [1, 2, 3], "large": True},
        {"ranks": 2, "tokens": tokens, "vocabulary": rng.randint(5, 9), "subgroup": [1]},
    ]


CHECK = Check(
    exercise="week05.cross-entropy",
    points=3,
    names=("vocabulary_loss",),
    public=(
        {"ranks": 2, "tokens": 2, "vocabulary": 4},
        {"ranks": 4, "tokens": 5, "vocabulary": 13, "subgroup": [0, 2, 3], "large": True},
        {"ranks": 4, "tokens": 3, "vocabulary": 5},
        {"ranks": 1, "tokens": 2, "vocabulary": 4},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=LAYERS_MASKED,
    timeout=15.0,
    hints=(
        "The loss of a token is log(sum of exp) minus its target's logit. Which parts of that does one rank have?",
        "Three all-reduces of one number per token: the maximum, the sum of exp(logit - maximum), and the target's "
        "logit, which is 0 on every rank that does not have it. Columns beyond the vocabulary are padding: set them to "
        "-inf first, so that they do not affect the maximum, the sum and the gradient.",
        "The gradient needs no message: exp(logit - maximum) / sum, minus 1 at a target of this rank, divided by the "
        "number of tokens. Careful: -inf times 0 is NaN.",
    ),
)
