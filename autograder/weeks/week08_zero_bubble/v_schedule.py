"""Two chunks per rank in a V: zero bubble with 1F1B's memory, and a small bubble with about half of it.

Half the memory is P + 2 half-size activations, as in V-Half. The target there is the idle time of interleaved 1F1B,
3(P-1) chunk passes; its rank 0 holds nearly twice as many activations.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from shardlab.pipeline_parallel.builders import interleaved, zbv
from shardlab.pipeline_parallel.schedule import Kind, Schedule, Slot
from shardlab.pipeline_parallel.simulation import simulate

from autograder.checks.base import Case, Check, Task
from autograder.checks.schedules import (
    BUILDERS,
    judge_schedule,
    same_homes,
    schedule_task,
    too_much_held,
    too_slow,
)

NAMES = ("num_ranks", "num_microbatches", "max_activations")
BOUNDS: dict[str, Callable[[int], int]] = {"ZBV": lambda ranks: 2 * ranks, "half": lambda ranks: ranks + 2}


def _homes(num_ranks: int, num_microbatches: int, max_activations: int) -> Schedule:
    return zbv(num_ranks, num_microbatches)


def _within_memory(case: Case, task: Task, schedule: Schedule) -> str | None:
    return too_much_held(schedule, [case["max_activations"]] * len(schedule), Kind.W)


def _little_bubble(case: Case, task: Task, schedule: Schedule) -> str | None:
    ranks, microbatches = case["num_ranks"], case["num_microbatches"]
    target: list[list[Slot]] = task.expected[0] if case["part"] == "ZBV" else interleaved(ranks, 2 * ranks)
    idle = simulate(target).idle[0]
    return too_slow(schedule, 6 * microbatches + idle)


def _case(part: str, num_ranks: int, num_microbatches: int) -> Case:
    return {
        "num_ranks": num_ranks,
        "num_microbatches": num_microbatches,
        "max_activations": BOUNDS[part](num_ranks),
        "part": part,
    }


def _draw_v(rng: Random) -> list[Case]:
    """Every number of microbatches from 2P to 4P; otherwise it would be chance whether a wrong order fails."""
    sizes = [(ranks, num) for ranks in (2, 3, 4) for num in range(2 * ranks, 4 * ranks + 1)]
    sizes.append((4, rng.randint(17, 24)))
    return [_case(part, *size) for part in BOUNDS for size in sizes]


CHECK = Check(
    exercise="week08.v-schedule",
    points=3,
    optional=True,
    names=("v_schedule",),
    public=tuple(_case(part, *size) for size in ((4, 8), (3, 7), (3, 8)) for part in BOUNDS),
    draw=_draw_v,
    make=schedule_task("v_schedule", _homes, names=("max_activations",)),
    judge=judge_schedule(same_homes, _within_memory, _little_bubble, stages=lambda case: 2 * case["num_ranks"]),
    program="without_ranks",
    masked=BUILDERS,
    parts={"ZBV": 0.5, "half": 0.5},
    hints=(
        "Leave one place free for the way up before an F on the way down begins. If no rank finds a pass in a "
        "tick, the rule is stuck: raise an error.",
        "W comes last on the wish list. Unlike in week 7, an I pass need not come first: try the F of the way up at "
        "the top.",
        "F up if there is room for one; F down if there is room for two; I up; I down; W.",
    ),
)
