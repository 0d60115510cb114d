"""The fastest schedule under a cap on activations."""

from __future__ import annotations

from random import Random

from shardlab.pipeline_parallel import builders
from shardlab.pipeline_parallel.bounds import least_makespan
from shardlab.pipeline_parallel.schedule import Kind, Schedule

from autograder.checks.base import Case, Check, Task
from autograder.checks.schedules import BUILDERS, judge_schedule, same_homes, schedule_task, too_much_held, too_slow


def _stages_of_gpipe(num_ranks: int, num_microbatches: int, max_activations: int) -> Schedule:
    return builders.gpipe(num_ranks, num_microbatches)


def _under_the_cap(case: Case, task: Task, schedule: Schedule) -> str | None:
    return too_much_held(schedule, [case["max_activations"]] * case["num_ranks"], Kind.W)


def _no_longer_than_must_be(case: Case, task: Task, schedule: Schedule) -> str | None:
    return too_slow(schedule, least_makespan(case["num_ranks"], case["num_microbatches"], case["max_activations"]))


def _draw_capped(rng: Random) -> list[Case]:
    """Every cap on 1 to 4 ranks, including one too large to matter, with full and partial last rounds; more ranks."""
    many = rng.randint(5, 8)
    sizes = [
        (ranks, microbatches, most)
        for ranks in (1, 2, 3, 4)
        for most in range(1, ranks + 2)
        for microbatches in range(most, 2 * most + 2)
    ]
    sizes += [(4, 2, 4), (many, rng.randint(9, 20), rng.randint(2, many - 1)), (many, rng.randint(2, many - 1), 2)]
    return [dict(zip(("num_ranks", "num_microbatches", "max_activations"), size, strict=True)) for size in sizes]


CHECK = Check(
    exercise="week07.capped",
    points=3,
    optional=True,
    names=("capped",),
    public=(
        {"num_ranks": 4, "num_microbatches": 8, "max_activations": 4},
        {"num_ranks": 4, "num_microbatches": 8, "max_activations": 2},
        {"num_ranks": 4, "num_microbatches": 8, "max_activations": 1},
        {"num_ranks": 3, "num_microbatches": 5, "max_activations": 2},
    ),
    draw=_draw_capped,
    make=schedule_task("capped", _stages_of_gpipe, ["max_activations"]),
    judge=judge_schedule(same_homes, _under_the_cap, _no_longer_than_must_be),
    program="without_ranks",
    masked=BUILDERS,
    hints=(
        "1F1B with a shorter warm-up is legal but too slow: a rank waits for a forward while a backward is ready.",
        "Simulate: a free rank runs a backward if one is ready, else a forward if it has room, else it waits.",
        "Record when each pass ends. Append the pass that can start first; if there is a tie, B before F.",
    ),
)
