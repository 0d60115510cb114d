"""The challenge: a recipe that trains like one rank, reaches a loss and stays under a memory cap.

Speed counts for the leaderboard (`autograder leaderboard`), never for points.

A student submits data, and our own program trains it. So it runs outside of the sandbox on the judge's own ranks, and
losses and bytes are measured, not claimed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from random import Random
from threading import Lock
from typing import Any

import shardlab
from shardlab.hybrid.race import RANKS, Lap, RaceEntry, from_dict, race
from shardlab.ranks.run import RanksFailed
from shardlab.ranks.warm import WorkerLost

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import trouble_in_call, value_of

LOSS, CAP = "loss", "cap"
MOST_BYTES = 950_000
LEAST_LOSS = 3.2
SAME = 1e-4  # relative tolerance of losses, in float32
TIMEOUT = 120.0
_one_race = Lock()


@lru_cache(maxsize=64)
def laps_of(recipe: RaceEntry, seed: int) -> tuple[Lap, ...] | str:
    """The laps of all ranks, or the reason why they failed."""
    with _one_race:  # judges run in parallel, and ranks of two races would share the processors
        try:
            with suppress(WorkerLost):  # retry once, because a busy machine can lose a worker
                return tuple(shardlab.run(race, recipe, seed, ranks=recipe.mesh.world, timeout=TIMEOUT))
            return tuple(shardlab.run(race, recipe, seed, ranks=recipe.mesh.world, timeout=TIMEOUT))
        except RanksFailed as error:
            ends = [end.error for end in error.outcome.ends if end.error]
            return (ends[0] if ends else str(error)).strip().splitlines()[-1]


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    given = value_of(reply)
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        return "recipe must be a dict, such as {'dp': 4, 'zero': 1}."
    try:
        recipe = from_dict(given)
    except ValueError as error:
        return f"This recipe cannot be raced: {error}."
    laps = laps_of(recipe, case["seed"])
    if isinstance(laps, str):
        return f"This recipe cannot be raced: {laps}."
    return _wrong_loss(recipe, laps, case["seed"]) if case["part"] == LOSS else _over_cap(laps)


def _wrong_loss(recipe: RaceEntry, laps: tuple[Lap, ...], seed: int) -> str | None:
    alone: Any = laps_of(recipe.alone, seed)
    for number, (mine, one) in enumerate(zip(laps[0].losses, alone[0].losses, strict=True)):
        if not abs(mine - one) <= SAME * one:
            return f"After {number} steps the loss is {mine:.6f}; on one rank it is {one:.6f}."
    if not laps[0].losses[-1] <= LEAST_LOSS:
        return f"The last loss is {laps[0].losses[-1]:.4f}; it must be at most {LEAST_LOSS}. Which key controls that?"
    return None


def _over_cap(laps: tuple[Lap, ...]) -> str | None:
    fullest = max(range(RANKS), key=lambda rank: laps[rank].peak_bytes)
    most = laps[fullest].peak_bytes
    if most > MOST_BYTES:
        return f"Rank {fullest} has {most:,} bytes alive at once; the cap is {MOST_BYTES:,}. What takes most of them?"
    return None


def _draw(rng: Random) -> list[Case]:
    seed = rng.randint(1, 10**6)
    return [{"part": LOSS, "seed": seed}, {"part": CAP, "seed": seed}]


CHECK = Check(
    exercise="week15.recipe",
    points=3,
    optional=True,
    names=("recipe",),
    public=({"part": LOSS, "seed": 0}, {"part": CAP, "seed": 0}),
    draw=_draw,
    make=lambda case, rng: Task(call=None, ranks=1, inputs=[[]], expected=[], groups=[]),
    judge=_judge,
    program="without_ranks",
    parts={LOSS: 1 / 3, CAP: 2 / 3},
    hints=(
        "Which part is the largest: states, gradients, or activations? Each key of the recipe makes one of them "
        "smaller.",
        "zero = 1 shrinks Adam's states, more microbatches shrink activations, and tp, pp and ep shrink the weights. A "
        "larger learning_rate reaches the loss.",
        "Start with {'dp': 2, 'tp': 2, 'ep': 2, 'zero': 1, 'microbatches': 2, 'learning_rate': 0.02} and change one "
        "key at a time.",
    ),
)
