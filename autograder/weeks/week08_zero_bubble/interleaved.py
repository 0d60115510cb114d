"""Interleaved 1F1B: judged by stages, time and memory, never by an exact order."""

from __future__ import annotations

from random import Random

from shardlab.pipeline_parallel import builders

from autograder.checks.base import Case, Check
from autograder.checks.schedules import BUILDERS, as_quick, held_as_expected, judge_schedule, same_homes, schedule_task

NAMES = ("num_ranks", "num_microbatches", "num_chunks")


def _draw_interleaved(rng: Random) -> list[Case]:
    """One to three rounds of two to four chunks on few ranks, and one larger size drawn at random."""
    sizes = [(ranks, rounds * ranks, chunks) for ranks in (1, 2, 3, 4) for rounds in (1, 2, 3) for chunks in (2, 3, 4)]
    sizes.append((5, 5 * rng.randint(1, 4), rng.randint(2, 3)))
    return [dict(zip(NAMES, case, strict=True)) for case in sizes]


CHECK = Check(
    exercise="week08.interleaved",
    points=3,
    names=("interleaved",),
    public=tuple(dict(zip(NAMES, case, strict=True)) for case in ((2, 4, 2), (4, 8, 2), (3, 3, 3))),
    draw=_draw_interleaved,
    make=schedule_task("interleaved", builders.interleaved, names=("num_chunks",)),
    judge=judge_schedule(
        same_homes, as_quick(), held_as_expected(), stages=lambda case: case["num_ranks"] * case["num_chunks"]
    ),
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "List all forwards of a rank in order, then all its backwards in order, then interleave the two lists.",
        "A round of P microbatches goes through the first chunk, then the second; backward, the last comes first.",
        "Warm up with (v-1)P + 2(P-1-r) forwards (or all there are), then alternate F and B, then do the remaining "
        "backwards.",
    ),
)
