"""1F1B as data, in the paper's order. Fewer microbatches than ranks (a short warm-up) earn a third of the points."""

from __future__ import annotations

from random import Random

from shardlab.pipeline_parallel import builders

from autograder.checks.base import Case, Check
from autograder.checks.schedules import (
    BUILDERS,
    as_quick,
    drawn_sizes,
    held_as_expected,
    judge_schedule,
    same_homes,
    same_order,
    schedule_task,
)

FULL, SHORT = "as many microbatches as ranks", "fewer microbatches than ranks"


def _draw(rng: Random) -> list[Case]:
    sizes = drawn_sizes(rng)
    return [size | {"part": SHORT if size["num_microbatches"] < size["num_ranks"] else FULL} for size in sizes]


CHECK = Check(
    exercise="week07.one-f-one-b",
    points=3,
    names=("one_f_one_b",),
    public=(
        {"num_ranks": 2, "num_microbatches": 4, "part": FULL},
        {"num_ranks": 4, "num_microbatches": 8, "part": FULL},
        {"num_ranks": 4, "num_microbatches": 2, "part": SHORT},
    ),
    draw=_draw,
    make=schedule_task("one_f_one_b", builders.one_f_one_b),
    judge=judge_schedule(same_homes, held_as_expected(), as_quick(), same_order),
    parts={FULL: 2 / 3, SHORT: 1 / 3},
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "The last rank has F0 B0 F1 B1 ... Which forwards must rank P-2 have run before its first backward can start?",
        "Rank r: P-1-r forwards to warm up (never more than M), then F and B in turns, then the remaining backwards.",
        "warm = min(P-1-r, M); forwards[:warm], then forwards[warm:] and backwards in turns, then backwards[M-warm:].",
    ),
)
