"""Dropout's random numbers: different masks for split tensors, the same mask for replicated ones.

All inputs are positive, so a zero means that a number was dropped. Masks are read from the returned values: kept
numbers must be right and scaled, outputs must follow from the hidden parts, and no two masks may come from the same
random numbers. A case with many steps detects numbers that are reused at other positions.
"""

from __future__ import annotations

from random import Random

import torch
from shardlab.costs.traffic import ring_all_reduce_bytes
from torch import Tensor

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble
from autograder.checks.groups import group_task, members_of, working
from autograder.weeks.week05_tensor_parallel._masks import FEWEST_STEPS, related
from autograder.weeks.week05_tensor_parallel._shared import (
    LAYERS_MASKED,
    sent_too_little,
    sent_too_much,
)

RELATIVE = 1e-4
SIGMAS = 5.0
Masks = dict[str, Tensor]


def _make(case: Case, rng: Random) -> Task:
    members, rows, hidden = members_of(case), case["rows"], case["hidden"]
    generator = torch.Generator().manual_seed(rng.randrange(1 << 31))

    def positive(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator) + 0.5

    x, seed = positive(rows, hidden), rng.randrange(1 << 20)
    args, parts = {}, {}
    for rank, inner in zip(members, case["inner"], strict=True):
        up, down = positive(hidden, inner), positive(inner, hidden)
        args[rank] = [x.clone(), up, down, case["p"], seed, case["steps"]]
        parts[rank] = (x @ up, down)
    return group_task(case, "dropout_steps", args, parts, keeps_inputs=True)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    ranks, masks = working(task), {}
    for rank in ranks:
        if problem := _wrong_shape(case, task, reply, rank) or touched_input(rank, reply.ranks[rank], task):
            return problem
    for step in range(case["steps"]):
        if problem := _wrong_step(case, task, reply, step, masks):
            return problem
    if problem := _wrong_share(case, masks) or _same_numbers(masks) or _related(case, task, masks):
        return problem
    due = case["steps"] * ring_all_reduce_bytes(len(ranks), 4 * case["rows"] * case["hidden"])
    why = "one all-reduce per step; no mask needs to be sent"
    return sent_too_much(task, reply, due, why) or sent_too_little(task, reply, due, why)


def _steps(reply: Reply, rank: int) -> list:
    return reply.ranks[rank]["value"]["plain"]


def _wrong_shape(case: Case, task: Task, reply: Reply, rank: int) -> str | None:
    steps = reply.ranks[rank].get("value", {}).get("plain")
    if not isinstance(steps, list | tuple) or len(steps) != case["steps"]:
        return f"Rank {rank} must return a list of {case['steps']} pairs, one per step."
    scores, down = task.expected[rank]
    shapes = [scores.shape, torch.Size([len(scores), down.shape[1]])]
    for pair in steps:
        fits = isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(one, Tensor) for one in pair)
        if not fits or [one.shape for one in pair] != shapes or any(one.dtype != torch.float32 for one in pair):
            return f"On rank {rank}, a step must be a pair of float32 tensors, hidden and output: {shapes}."
    return None


def _wrong_step(case: Case, task: Task, reply: Reply, step: int, masks: Masks) -> str | None:
    """Check the values of one step, and record its masks in `masks` by where they were drawn."""
    ranks, keep = working(task), 1 - case["p"]
    total = torch.zeros(case["rows"], case["hidden"], dtype=torch.float64)
    for rank in ranks:
        hidden, (scores, down) = _steps(reply, rank)[step][0], task.expected[rank]
        if not _is_dropout(hidden, scores / keep):
            return f"Step {step}: hidden on rank {rank} must be relu(x @ up), each number dropped or divided by 1 - p."
        total += hidden.double() @ down.double()
        masks[f"hidden on rank {rank} in step {step}"] = hidden != 0
    first = _steps(reply, ranks[0])[step][1]
    for rank in ranks:
        output = _steps(reply, rank)[step][1]
        if not torch.equal(output != 0, first != 0):
            return (
                f"Step {step}: ranks {ranks[0]} and {rank} drop different numbers of the output, which is replicated: "
                "their activations are no longer copies. Which stream does that mask come from?"
            )
        if not _is_dropout(output, total / keep):
            return (
                f"Step {step}: the output on rank {rank} must be the sum over ranks of hidden @ down, with each "
                "number then dropped or divided by 1 - p."
            )
    masks[f"the output in step {step}"] = first != 0
    return None


def _is_dropout(received: Tensor, scaled: Tensor) -> bool:
    """Whether each number is 0 or the expected value."""
    wanted = scaled.float()
    return bool(((received == 0) | ((received - wanted).abs() <= RELATIVE * wanted.abs())).all())


def _wrong_share(case: Case, masks: Masks) -> str | None:
    """Report a mask that drops more or fewer numbers than chance explains."""
    for place, mask in masks.items():
        num, p = mask.numel(), case["p"]
        dropped = num - int(mask.sum())
        if abs(dropped - num * p) > SIGMAS * (num * p * (1 - p)) ** 0.5:
            return f"In {place}, {dropped} of {num} numbers are dropped, although p = {p:g}."
    return None


def _same_numbers(masks: Masks) -> str | None:
    """Report two masks that begin with the same values: they were drawn from the same random numbers."""
    for length in {mask.numel() for mask in masks.values()}:
        seen: dict[bytes, str] = {}
        for place, mask in masks.items():
            if mask.numel() < length:
                continue
            first = seen.setdefault(mask.flatten()[:length].numpy().tobytes(), place)
            if first != place and length in (mask.numel(), masks[first].numel()):
                return _the_same(first, place)
    return None


def _related(case: Case, task: Task, masks: Masks) -> str | None:
    """Report masks of many steps that reuse the same random numbers at other positions."""
    if case["steps"] < FEWEST_STEPS:
        return None
    places = [*(f"hidden on rank {rank}" for rank in working(task)), "the output"]
    steps = range(case["steps"])
    pair = related({place: torch.stack([masks[f"{place} in step {step}"] for step in steps]) for place in places})
    return pair and _the_same(*pair)


def _the_same(first: str, second: str) -> str:
    return (
        f"The masks of {first} and of {second} are the same, perhaps shifted: both were drawn from the same random "
        "numbers. Which stream was active in each place?"
    )


def _draw(rng: Random) -> list[Case]:
    """Equal parts, and uneven ones, so that streams drift apart; a part of the world; one rank."""

    def case(ranks: int, inner: list[int], **more: object) -> Case:
        sizes = {"rows": rng.randint(14, 18), "hidden": rng.randint(10, 14), "inner": inner}
        return {"ranks": ranks, **sizes, "p": rng.choice([0.2, 0.3, 0.4]), "steps": 3, **more}

    return [
        case(3, [12, 11, 13]) | {"p": 0.5, "steps": FEWEST_STEPS + 20},
        case(3, [10, 14, 11]),
        case(4, [rng.randint(10, 14)] * 3, subgroup=[0, 1, 3]),
        case(2, [12], subgroup=[1]),
    ]


CHECK = Check(
    exercise="week05.dropout",
    points=2,
    names=("dropout_steps",),
    public=(
        {"ranks": 2, "rows": 16, "hidden": 12, "inner": [12, 12], "p": 0.5, "steps": 128},
        {"ranks": 4, "rows": 16, "hidden": 10, "inner": [10, 13], "p": 0.4, "steps": 3, "subgroup": [1, 3]},
    ),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=LAYERS_MASKED,
    timeout=15.0,
    hints=(
        "Draw the masks of two ranks, as the page does. Which of the two regions is wrong?",
        "What is the value of `a and b`, and which of the two does `with a and b:` enter?",
        "Use one `with` and two contexts: `with a, b:`.",
    ),
)
