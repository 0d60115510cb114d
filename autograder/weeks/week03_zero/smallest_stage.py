"""The smallest stage of ZeRO whose model states fit next to other bytes; sums that just fit are drawn, too."""

from __future__ import annotations

from random import Random

from shardlab.costs.memory.states import zero_state_bytes

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, numbers_of, shown, trouble_in_call
from autograder.checks.shards import TABLES_MASKED

NAMES = ("num_parameters", "num_ranks", "memory_bytes", "other_bytes")


def _states(case: Case) -> list[float]:
    return [zero_state_bytes(case["num_parameters"], case["num_ranks"], stage).total for stage in range(4)]


def smallest(case: Case) -> int | None:
    """The first stage that fits, or None."""
    fits = [states + case["other_bytes"] <= case["memory_bytes"] for states in _states(case)]
    return fits.index(True) if True in fits else None


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    if received is None and expected is None:
        return None
    if type(received) is not int or received != expected:
        sums = ", ".join(f"{states + case['other_bytes']:.6g}" for states in _states(case))
        return f"For ({shown(case)}) the stages need {sums} bytes, so {received!r} is not the smallest that fits."
    return None


def _draw(rng: Random) -> list[Case]:
    cases = []
    for stage in (0, 1, 2, 3, None):
        case = {"num_parameters": 1024 * rng.randint(10**5, 10**7), "num_ranks": rng.choice([2, 4, 8, 32])}
        states, other = _states(case), rng.randint(0, 10**9)
        memory = states[3] + other - 1 if stage is None else states[stage] + other
        cases.append(case | {"memory_bytes": int(memory), "other_bytes": other})
    return cases


CHECK = Check(
    exercise="week03.smallest-stage",
    points=1,
    optional=True,
    names=("smallest_stage",),
    public=(
        {"num_parameters": 1_500_000_000, "num_ranks": 8, "memory_bytes": 32_000_000_000, "other_bytes": 0},
        {
            "num_parameters": 1_500_000_000,
            "num_ranks": 8,
            "memory_bytes": 32_000_000_000,
            "other_bytes": 10_000_000_000,
        },
        {"num_parameters": 10_000_000_000, "num_ranks": 32, "memory_bytes": 32_000_000_000, "other_bytes": 0},
    ),
    draw=_draw,
    make=formula_task("smallest_stage", NAMES, smallest),
    judge=_judge,
    program="without_ranks",
    masked=TABLES_MASKED,
    hints=(
        "Add the other bytes to each of the four numbers of state_bytes.",
        "Go through the stages in order and stop at the first sum that is at most memory_bytes.",
        "for stage, states in enumerate(state_bytes(num_parameters, num_ranks)): ...; after the loop, return None.",
    ),
)
