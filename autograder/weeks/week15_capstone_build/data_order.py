"""The sequences a replica reads in a step: the same batch on every mesh, and the same data after a crash."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import numbers_of, trouble_in_call

SMALL = {"seed": 7, "num": 20, "batch": 8, "dp": [1, 2, 4]}


def _calls(case: Case, rng: Random) -> list[list[int]]:
    """[seed, step, replica, dp, batch, num] for three epochs of two seeds, shuffled."""
    steps = range(-(-3 * case["num"] // case["batch"]))
    calls = [
        [seed, step, replica, dp, case["batch"], case["num"]]
        for seed in (case["seed"], case["seed"] + 1)
        for step in steps
        for dp in case["dp"]
        for replica in range(dp)
    ]
    rng.shuffle(calls)
    return calls + calls[: len(calls) // 3]  # some steps again, as after a crash


def _make(case: Case, rng: Random) -> Task:
    calls = _calls(case, rng)
    return Task("order_of", 1, [[[calls]]], [calls], [])


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    calls, answers = task.expected[0], numbers_of(reply)
    if not isinstance(answers, list) or len(answers) != len(calls):
        return "order_of must return one list per call."
    found: dict[tuple[int, ...], list[int]] = {}
    for call, mine in zip(calls, answers, strict=True):
        if problem := _not_a_part(call, mine):
            return problem
        if found.setdefault(tuple(call), mine) != mine:
            return f"sequences{tuple(call)} returns two different results: a resumed run would read different data."
    return _wrong_batches(case, found) or _wrong_epochs(case, found)


def _not_a_part(call: list[int], mine: Any) -> str | None:
    _, _, _, dp, batch, num = call
    if not isinstance(mine, list) or not all(type(one) is int and 0 <= one < num for one in mine):
        return f"sequences{tuple(call)} must return a list of numbers from 0 to {num - 1}."
    if len(mine) != batch // dp:
        return f"sequences{tuple(call)} has {len(mine)} sequences; a replica's part of the batch has {batch // dp}."
    return None


def _wrong_batches(case: Case, found: dict[tuple[int, ...], list[int]]) -> str | None:
    """The complaint if a batch depends on dp."""
    sizes = (case["batch"], case["num"])
    for seed, step, _, dp, *_ in found:
        parts = [found[seed, step, replica, dp, *sizes] for replica in range(dp)]
        together, alone = list(chain(*parts)), found[seed, step, 0, 1, *sizes]
        if together != alone:
            same = "the same sequences in another order" if sorted(together) == sorted(alone) else "other sequences"
            return f"In step {step} dp = {dp} reads {same} than dp = 1: replica r must read the r-th part of one batch."
    return None


def _wrong_epochs(case: Case, found: dict[tuple[int, ...], list[int]]) -> str | None:
    """The complaint if an epoch misses a sequence or repeats another epoch's order."""
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
        return "Two epochs have the same order: every epoch of every seed, including seed + 1, needs its own order."
    return None


def _draw(rng: Random) -> list[Case]:
    """Batches that do and do not divide an epoch, one larger than an epoch, and various numbers of replicas."""
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
        "n // num is its epoch, n % num its index in that epoch's permutation. Replica r takes the r-th part.",
        "order = list(range(num)); Random(f'{seed}/{epoch}').shuffle(order). Keep nothing between two calls, "
        "and do not use dp in the seed.",
    ),
)
