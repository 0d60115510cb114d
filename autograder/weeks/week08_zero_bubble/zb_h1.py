"""ZB-H1: as fast as the paper's at F = I = W, within the memory of 1F1B."""

from __future__ import annotations

from shardlab.pipeline_parallel import builders
from shardlab.pipeline_parallel.schedule import Kind, Schedule
from shardlab.pipeline_parallel.simulation import peak_activations

from autograder.checks.base import Case, Check, Task
from autograder.checks.schedules import (
    BUILDERS,
    as_quick,
    drawn_sizes,
    judge_schedule,
    same_homes,
    schedule_task,
    too_much_held,
)


def _in_memory_of_1f1b(case: Case, task: Task, schedule: Schedule) -> str | None:
    """No rank holds more than 1F1B's fullest rank, counted until W, because a weight gradient needs activations too."""
    most = max(peak_activations(task.expected[0], until=Kind.W))
    return too_much_held(schedule, [most] * len(schedule), Kind.W)


CHECK = Check(
    exercise="week08.zb-h1",
    points=3,
    names=("zb_h1",),
    public=tuple({"num_ranks": ranks, "num_microbatches": num} for ranks, num in ((2, 4), (4, 8), (5, 3), (5, 9))),
    draw=drawn_sizes,
    make=schedule_task("zb_h1", builders.zb_h1),
    judge=judge_schedule(same_homes, as_quick(), _in_memory_of_1f1b),
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "Start from 1F1B: the same warm-up, then alternate F and I. Only the Ws move.",
        "If a rank does its W at once, the previous rank waits. The later the stage, the longer its W can wait.",
        "Rank r: P-1-r forwards; then F I in each turn, after the first r turns a W too; the remaining Ws at the end.",
    ),
)
