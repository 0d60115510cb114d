"""GPipe as data: legal, all forwards before all backwards, and as fast as the paper's."""

from __future__ import annotations

from shardlab.pipeline_parallel import builders
from shardlab.pipeline_parallel.schedule import Kind, Schedule, all_actions

from autograder.checks.base import Case, Check, Task
from autograder.checks.schedules import BUILDERS, as_quick, drawn_sizes, judge_schedule, same_homes, schedule_task


def _all_forwards_first(case: Case, task: Task, schedule: Schedule) -> str | None:
    for rank, slots in enumerate(schedule):
        actions = list(all_actions([slots]))
        late = [action for action in actions[case["num_microbatches"] :] if action.kind is Kind.F]
        if late:
            return f"Legal, but in GPipe all forwards come first: rank {rank} has {late[0]} after a backward."
        if any(action.kind is not Kind.B for action in actions[case["num_microbatches"] :]):
            return f"Rank {rank} splits its backward; in GPipe each backward is one B."
    return None


CHECK = Check(
    exercise="week07.gpipe",
    points=2,
    names=("gpipe",),
    public=({"num_ranks": 2, "num_microbatches": 4}, {"num_ranks": 4, "num_microbatches": 8}),
    draw=drawn_sizes,
    make=schedule_task("gpipe", builders.gpipe),
    judge=judge_schedule(same_homes, _all_forwards_first, as_quick()),
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "Rank r runs stage r: its list begins with rF0, rF1, ...",
        "First every forward, then every backward; the stage number equals the rank.",
        '[f"{rank}F{m}" for m in range(M)], then the same with B, for every rank.',
    ),
)
