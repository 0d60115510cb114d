"""The bytes that a rank holds in 1F1B and in ZB-H1: the last column of table 2 in the Zero Bubble paper.

Expected values are counted along the schedules, not computed by a formula.
"""

from __future__ import annotations

from random import Random

from shardlab.pipeline_parallel.builders import one_f_one_b, zb_h1
from shardlab.pipeline_parallel.schedule import Kind, Schedule, actions_of

from autograder.checks.base import Case, Check
from autograder.checks.formulas import formula_task, judge_numbers
from autograder.checks.schedules import BUILDERS

NAMES = ("num_ranks", "rank", "before_input", "before_weight")


def most_bytes(schedule: Schedule, rank: int, before_input: float, before_weight: float) -> float:
    """The peak of a rank that holds `before_input` of a microbatch from F to I, then `before_weight` until W."""
    change = {Kind.F: before_input, Kind.B: -before_input, Kind.I: before_weight - before_input, Kind.W: -before_weight}
    held = peak = 0.0
    for slot in schedule[rank]:
        held += sum(change[action.kind] for action in actions_of(slot))
        peak = max(peak, held)
    return peak


def _held(case: Case) -> tuple[float, float]:
    ranks, rank, *sizes = (case[name] for name in NAMES)
    one, zero = (most_bytes(build(ranks, 2 * ranks), rank, *sizes) for build in (one_f_one_b, zb_h1))
    return one, zero


def _draw_held(rng: Random) -> list[Case]:
    """The first, the last and a middle rank; a W needs fewer bytes than an I."""
    cases = []
    for num_ranks in (1, 2, 4, rng.randint(5, 8), rng.randint(9, 16)):
        before_input = rng.randint(20, 40)
        for rank in sorted({0, num_ranks // 2, num_ranks - 1}):
            cases.append(dict(zip(NAMES, (num_ranks, rank, before_input, rng.randint(5, 19)), strict=True)))
    return cases


CHECK = Check(
    exercise="week08.held",
    points=1,
    names=("held_bytes",),
    public=tuple(dict(zip(NAMES, case, strict=True)) for case in ((4, 0, 34, 16), (4, 1, 34, 16), (4, 3, 34, 16))),
    draw=_draw_held,
    make=formula_task("held_bytes", NAMES, _held),
    judge=judge_numbers(("the most that the rank holds in 1F1B", "the most that the rank holds in ZB-H1")),
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "Stop rank r right after the F of a turn, when it holds the most. Which microbatches wait for I, which for W?",
        "In both schedules P-r microbatches wait for their I. ZB-H1 has postponed Ws in addition. How many?",
        "1F1B: (P-r) times before_input. ZB-H1: that plus r times before_weight.",
    ),
)
