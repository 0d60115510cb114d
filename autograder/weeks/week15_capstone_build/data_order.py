"""Which sequences a replica reads in a step: one batch on every mesh, and after a crash what it would have read."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, trouble_in_call

SMALL = {"seed": 7, "num": 20, "batch": 8, "dp": [1, 2, 4]}


def _calls(case: Case, rng: Random) -> list[list[int]]:
    """[seed, step, replica, dp, batch, num] of two epochs and the begin of a third, of two seeds, not in order."""
    steps = range(-(-3 * case["num"] // case["batch"]))
    calls = [
        [seed, step, replica, dp, case["batch"], case["num"]]
        for seed in (case["seed"], case["seed"] + 1)
        for step in steps
        for dp in case["dp"]
        for replica in range(dp)
    ]
    rng.shuffle(calls)
    return calls + calls[: len(calls) // 3]  # a crash: steps that were done are done again


def _make(case: Case, rng: Random) -> Task:
    calls = _calls(case, rng)
    return Task("order_of", 1, [[[calls]]], [calls], [])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    calls, answers = task.expected[0], numbers_of(reply)
    if not isinstance(answers, list) or len(answers) != len(calls):
        return "order_of returns one list for each call."
    found: dict[tuple[int, ...], list[int]] = {}
    for call, mine in zip(calls, answers, strict=True):
        if problem := _not_a_part(call, mine):
            return problem
        if found.setdefault(tuple(call), mine) != mine:
            return f"sequences{tuple(call)} is asked twice and gives two answers: a resumed run would read other data."
    return _wrong_batches(case, found) or _wrong_epochs(case, found)


def _not_a_part(call: list[int], mine: Any) -> str | None:
    _, _, _, dp, batch, num = call
    if not isinstance(mine, list) or not all(type(one) is int and 0 <= one < num for one in mine):
        return f"sequences{tuple(call)} must return a list of numbers from 0 to {num - 1}."
    if len(mine) != batch // dp:
        return f"sequences{tuple(call)} has {len(mine)} sequences; a replica's part of the batch is {batch // dp}."
    return None


def _wrong_batches(case: Case, found: dict[tuple[int, ...], list[int]]) -> str | None:
    """Whether another dp reads other batches."""
    sizes = (case["batch"], case["num"])
    for seed, step, _, dp, *_ in found:
        parts = [found[seed, step, replica, dp, *sizes] for replica in range(dp)]
        together, alone = list(chain(*parts)), found[seed, step, 0, 1, *sizes]
        if together != alone:
            same = "the same sequences in another order" if sorted(together) == sorted(alone) else "other sequences"
            return f"In step {step} dp = {dp} reads {same} than dp = 1: replica r has the r-th part of one batch."
    return None


def _wrong_epochs(case: Case, found: dict[tuple[int, ...], list[int]]) -> str | None:
    """Whether an epoch leaves something out, or its order comes again."""
    num, batch = case["num"], case["batch"]
    epochs: list[tuple[int, ...]] = []
    for seed in (case["seed"], case["seed"] + 1):
        steps = range(-(-3 * num // batch))
        stream = [one for step in steps for one in found[seed, step, 0, 1, batch, num]]
        for epoch in range(3):
            order = stream[epoch * num : (epoch + 1) * num]
            if missing := set(range(num)) - set(order):
                return f"In epoch {epoch} of seed {seed} {len(missing)} of {num} sequences are never read."
            if order == sorted(order):
                return f"Epoch {epoch} of seed {seed} is not shuffled."
            epochs.append(tuple(order))
    if len(set(epochs)) < len(epochs):
        return "Two epochs have the same order: each seed and each epoch needs an order of its own, also seed + 1."
    return None


def _draw(rng: Random) -> list[Case]:
    """Batches that divide an epoch and that do not, one that is larger than an epoch, replicas by 2, 3 and 4."""
    return [
        {"seed": rng.randint(0, 999), "num": 4 * rng.randint(8, 16), "batch": 4, "dp": [1, 2, 4]},
        {"seed": rng.randint(0, 999), "num": 12 * rng.randint(3, 5) + 5, "batch": 12, "dp": [1, 2, 3, 4, 6]},
        {"seed": rng.randint(0, 999), "num": rng.randint(17, 21), "batch": 24, "dp": [1, 3, 8]},
        {"seed": rng.randint(0, 999), "num": rng.randint(60, 90), "batch": 7, "dp": [1, 7]},
    ]


CHECK = Check(
    exercise="week15.data-order",
    points=2,
    names=("order_of",),
    public=(SMALL, {"seed": 3, "num": 24, "batch": 6, "dp": [1, 3]}),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=("shardlab.train", "shardlab.model.text"),
    hints=(
        "Number all sequences that the run ever reads: step s reads numbers s·batch to (s+1)·batch. What is number n?",
        "n // num is its epoch, n % num its place in that epoch's permutation. Replica r takes the r-th part.",
        "order = list(range(num)); Random(f'{seed}/{epoch}').shuffle(order). Nothing may be kept between two calls, "
        "and dp has no place in the seed.",
    ),
)
