"""DualPipe and DualPipeV: as fast as the papers' orders, with and without overlap, within P + 1 activations."""

from __future__ import annotations

from random import Random

from shardlab.pipeline_parallel import builders
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import Kind

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.schedules import BUILDERS, as_quick, held_as_expected, judge_schedule, same_homes, schedule_task

OVERLAPPED = Durations(1.5, 1.5, 1.0, overlapped=3.2)  # without a pair F + B takes 4: messages are exposed
QUESTIONS = (same_homes, as_quick(), as_quick(OVERLAPPED), held_as_expected(Kind.W))

_MAKE = {
    "DualPipe": schedule_task("dualpipe", builders.dualpipe),
    "DualPipeV": schedule_task("dualpipe_v", builders.dualpipe_v),
}
_JUDGE = {
    "DualPipe": judge_schedule(*QUESTIONS, copies=2),
    "DualPipeV": judge_schedule(*QUESTIONS, stages=lambda case: 2 * case["num_ranks"]),
}


def _make(case: Case, rng: Random) -> Task:
    return _MAKE[case["part"]](case, rng)


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    return _JUDGE[case["part"]](case, task, reply)


def _draw(rng: Random) -> list[Case]:
    """Few microbatches and many, but at least two per rank; in DualPipe an even number."""
    more = (0, 1, 2, rng.randint(3, 6))
    cases = [("DualPipe", ranks, 2 * ranks + 2 * extra) for ranks in (2, 4, 6) for extra in more]
    cases += [("DualPipe", 8, 16), ("DualPipe", 8, 16 + 2 * rng.randint(1, 8))]
    cases += [("DualPipeV", ranks, 2 * ranks + extra) for ranks in (1, 2, 3, 4, 5) for extra in more]
    return [_case(*case) for case in cases]


def _case(part: str, num_ranks: int, num_microbatches: int) -> Case:
    return {"num_ranks": num_ranks, "num_microbatches": num_microbatches, "part": part}


CHECK = Check(
    exercise="week13.dualpipe",
    points=2,
    names=("dualpipe", "dualpipe_v"),
    public=(_case("DualPipe", 4, 8), _case("DualPipe", 8, 20), _case("DualPipeV", 4, 10)),
    draw=_draw,
    make=_make,
    judge=_judge,
    program="without_ranks",
    masked=BUILDERS,
    parts={"DualPipe": 0.5, "DualPipeV": 0.5},
    hints=(
        "For each rank, find e, the two stages and the two streams; then call your words, then your slots.",
        "DualPipe: near = min(r, P-1-r), far = P-1-near, L = P/2; on the second half, near has the upper numbers.",
        "DualPipeV: near = r, far = 2P-1-r, L = P, e = r; both streams are all microbatches.",
    ),
)
