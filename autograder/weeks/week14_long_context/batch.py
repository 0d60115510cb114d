"""A batch split zig-zag: labels shifted on the whole sequence, the right positions, a mean over all scored tokens."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import torch
from shardlab.costs.traffic import ring_all_reduce_bytes
from torch import Tensor
from torch.nn.functional import cross_entropy

from autograder.checks.base import Case, Check, Reply, Task, calls_of, trouble
from autograder.checks.groups import group_task, members_of, working
from autograder.weeks.week14_long_context._shared import MASKED, ZIG_ZAG, owned, sends_too_much, wrong_tensors

IGNORED = -100
NUMBERS = 3  # small all-reduces in addition to the gradients: the count, the loss, and one spare
WHY = {
    "the positions": "Rank r has chunks r and 2c - 1 - r of 2c.",
    "the labels": "A position's label is the next token of the sequence: is that token on this rank?",
    "the loss": "How many tokens does the mean include, and which rank knows that number?",
    "the gradient of table": "Do the ranks' shares sum to the mean over all scored tokens?",
    "the gradient of places": "What are the positions of this rank's tokens in the sequence?",
}


def labels_of(targets: Tensor) -> Tensor:
    """The label of each position: the target of the next one; the last has none."""
    return torch.cat([targets[:, 1:], torch.full_like(targets[:, :1], IGNORED)], 1)


def one_process(tokens: Tensor, targets: Tensor, table: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean loss over all scored tokens, and the gradients of both tables, in float64."""
    leaves = [one.double().requires_grad_() for one in (table, places)]
    logits = leaves[0][tokens] + leaves[1]
    loss = cross_entropy(logits.flatten(0, 1), labels_of(targets).flatten(), ignore_index=IGNORED)
    of_table, of_places = torch.autograd.grad(loss, leaves)
    return loss.detach(), of_table, of_places


def _make(case: Case, rng: Random) -> Task:
    members, vocabulary = members_of(case), 11
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))
    length = case["rows"] * len(members) + case.get("more", 0)
    tokens = torch.randint(vocabulary, (case["batch"], length), generator=generator)
    scored = torch.rand(tokens.shape, generator=generator) < 0.6
    scored[0, :2] = scored[-1, -1] = True  # some always count: the first two tokens, and the last
    if "silent" in case:
        mine = owned(ZIG_ZAG, length, case["silent"], len(members))
        scored[:, mine[mine + 1 < length] + 1] = False
    table = torch.randn(vocabulary, vocabulary, generator=generator)
    places = torch.randn(length, vocabulary, generator=generator)
    targets = torch.where(scored, tokens, IGNORED)
    args = {rank: [tokens, targets, table, places] for rank in members}
    expected: dict[int, Any] = {} if case.get("more") else _expected(members, tokens, targets, table, places)
    due = ring_all_reduce_bytes(len(members), table.nbytes + places.nbytes + NUMBERS * 8)
    return group_task(case, "batch_step", args, expected, keeps_inputs=True, length=length, due=due)


def _expected(members: list[int], tokens: Tensor, targets: Tensor, table: Tensor, places: Tensor) -> dict[int, Any]:
    loss, of_table, of_places = (one.float() for one in one_process(tokens, targets, table, places))
    labels, expected = labels_of(targets), {}
    for place, rank in enumerate(members):
        mine = owned(ZIG_ZAG, tokens.shape[1], place, len(members))
        expected[rank] = dict(zip(WHY, (mine, labels[:, mine], loss, of_table, of_places), strict=True))
    return expected


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if case.get("more"):
        return _not_refused(task, reply)
    if problem := trouble(reply) or wrong_tensors(task, reply, WHY):
        return problem
    why = "send the gradients and a number or two; every rank has all tokens, so do not send any list of them"
    return sends_too_much(task, reply, task.facts["due"], why)


def _not_refused(task: Task, reply: Reply) -> str | None:
    """The problem if a length that 2c does not divide is not refused: a ValueError with both numbers, nothing sent."""
    length, num_ranks = task.facts["length"], len(working(task))
    asked = f"A sequence of {length} cannot be cut into {2 * num_ranks} chunks"
    for rank in working(task):
        error = str(reply.ranks[rank].get("raised", "")).strip().rsplit("\n", 1)[-1]
        if error.startswith("NotImplementedError") or "refused" in reply.ranks[rank]:
            return trouble(reply)
        if not error.startswith("ValueError"):
            came = error[:120] or "no error"
            return f"{asked}: raise a ValueError that says so, on every rank. Rank {rank} reports: {came}."
        named = set(re.findall(r"\d+", error))
        if str(length) not in named or not named & {str(num_ranks), str(2 * num_ranks)}:
            return f"{asked}: name both numbers in the ValueError. Rank {rank} says: {error[:120]}"
        if calls_of(reply, rank):
            return f"{asked}: rank {rank} raises the error only after it has sent something. Raise it first."
    return None


def _draw(rng: Random) -> list[Case]:
    """A rank without a scored token; part of the world; one rank; lengths that c divides and 2c does not."""

    def case(ranks: int, rows: int, **more: object) -> Case:
        return {"ranks": ranks, "batch": rng.randint(2, 3), "rows": 2 * rows} | more

    return [
        case(2, rng.randint(15, 20)),
        case(3, rng.randint(3, 9), silent=rng.randint(0, 2)),
        case(4, rng.randint(3, 9), subgroup=[0, 2, 3]),
        case(4, rng.randint(3, 9), subgroup=[1, 3], silent=rng.randint(0, 1)),
        case(2, rng.randint(3, 9), subgroup=[1]),
        case(3, rng.randint(2, 5), more=3),
        case(2, rng.randint(2, 5), more=1),
    ]


CHECK = Check(
    exercise="week14.batch",
    points=3,
    names=("batch_step",),
    public=(
        {"ranks": 2, "batch": 1, "rows": 4},
        {"ranks": 4, "batch": 2, "rows": 16, "subgroup": [1, 2, 3], "silent": 1},
        {"ranks": 2, "batch": 1, "rows": 4, "more": 2},
        {"ranks": 1, "batch": 1, "rows": 4},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    timeout=15.0,
    hints=(
        "Write down the sequence 0 … 7 for two ranks. Which chunks does rank 1 have, and what is the label of position "
        "3?",
        "Shift while the sequence is whole: labels[:, :-1] = targets[:, 1:], and the last label is -100. "
        "Then select your positions from everything.",
        "count = (labels != -100).sum(); all_reduce(count) over the group; the share is losses.sum() / ____.",
    ),
)
