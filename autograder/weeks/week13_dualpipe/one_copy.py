"""1F1B with overlapped pairs: it hides the all-to-all as DualPipe does, with one copy of the weights."""

from __future__ import annotations

from random import Random

from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Action, Kind, Overlap, Schedule, Slot, passes
from shardlab.pipeline_parallel.simulation import peak_activations

from autograder.checks.base import Case, Check, Task
from autograder.checks.schedules import BUILDERS, as_quick, judge_schedule, same_homes, schedule_task, too_much_held

HIDDEN = Durations(1.5, 1.5, 1.0, overlapped=3.0)  # an all-to-all of 0.5 in F and in I, fully hidden in a pair


def overlapped_1f1b(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r warms up with 2(P-1-r) + 1 forwards; then each F is paired with a B that is this many older."""
    return [_one_rank(rank, num_ranks, num_microbatches) for rank in range(num_ranks)]


def _one_rank(rank: int, num_ranks: int, num_microbatches: int) -> list[Slot]:
    warmup = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
    pairs: list[Slot] = [
        Overlap(Action(Kind.F, rank, m + warmup), Action(Kind.B, rank, m)) for m in range(num_microbatches - warmup)
    ]
    left = range(num_microbatches - warmup, num_microbatches)
    return passes(Kind.F, rank, range(warmup)) + pairs + passes(Kind.B, rank, left)


def _in_memory(case: Case, task: Task, schedule: Schedule) -> str | None:
    """At most 2(P-r) activations: a pair allocates its F's activations before its B frees any."""
    return too_much_held(schedule, peak_activations(task.expected[0], until=Kind.W), Kind.W)


def _draw(rng: Random) -> list[Case]:
    """All numbers of microbatches up to one above the longest warm-up, on few ranks; larger random ones; the page's."""
    sizes = [(ranks, num) for ranks in (1, 2, 3, 4) for num in range(1, 2 * ranks + 2)]
    sizes += [(4, rng.randint(10, 20)), (8, 20)]
    return [{"num_ranks": ranks, "num_microbatches": microbatches} for ranks, microbatches in sizes]


CHECK = Check(
    exercise="week13.one-copy",
    points=3,
    optional=True,
    names=("overlapped_1f1b",),
    public=tuple({"num_ranks": ranks, "num_microbatches": num} for ranks, num in ((2, 4), (8, 20), (3, 2))),
    draw=_draw,
    make=schedule_task("overlapped_1f1b", overlapped_1f1b),
    judge=judge_schedule(same_homes, as_quick(HIDDEN), _in_memory),
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "In 1F1B, the last rank's B needs the F just before it, so these two cannot be a pair. Which F could be?",
        "A microbatch takes a pair for each rank down and each rank up: twice the warm-up of 1F1B, plus one.",
        "Rank r: 2(P-1-r)+1 forwards (at most M), then (rF{m+warmup};rB{m})OVERLAP_F_B, then the remaining Bs.",
    ),
)
