"""Split layers into stages such that the slowest stage is as fast as possible.

Several splits may be optimal, so only the sizes and the slowest stage are checked. Costs are integers and compared
exactly.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, shown, trouble_in_call, value_of


def slowest_stage(seconds: list[int], num_stages: int) -> int:
    """The lowest possible cost of the slowest of `num_stages` nonempty runs of layers."""

    @cache
    def best(begin: int, stages: int) -> int:
        if stages == 1:
            return sum(seconds[begin:])
        cuts = range(begin + 1, len(seconds) - stages + 2)
        return min(max(sum(seconds[begin:cut]), best(cut, stages - 1)) for cut in cuts)

    return best(0, num_stages)


def _judge_split(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, seconds, stages = value_of(reply), case["seconds"], case["num_stages"]
    if problem := _wrong_sizes(received, len(seconds), stages):
        return f"For ({shown(case)}) {problem}"
    begins = [sum(received[:stage]) for stage in range(stages)]
    slowest = max(sum(seconds[begin : begin + size]) for begin, size in zip(begins, received, strict=True))
    if slowest > task.expected[0]:
        return f"For ({shown(case)}) the slowest stage takes {slowest}; {task.expected[0]} is possible."
    return None


def _wrong_sizes(received: Any, num_layers: int, stages: int) -> str | None:
    if not isinstance(received, list | tuple) or any(type(size) is not int for size in received):
        return "return a list of ints: the number of layers of each stage."
    if len(received) != stages:
        return f"there are {len(received)} sizes; return one for each of the {stages} stages."
    if min(received) < 1:
        return f"stage {received.index(min(received))} has {min(received)} layers; give every stage at least one."
    if sum(received) != num_layers:
        return f"the stages have {sum(received)} layers in total, but the model has {num_layers}."
    return None


def _draw_splits(rng: Random) -> list[Case]:
    cases = [
        {"seconds": [1] * 8 + [rng.randint(3, 6)], "num_stages": 4},  # the loss's stage is expensive
        {"seconds": [rng.randint(4, 7)] + [1] * rng.randint(5, 8), "num_stages": 3},
        {"seconds": [rng.randint(1, 9) for _ in range(5)], "num_stages": 5},
        {"seconds": [rng.randint(1, 9) for _ in range(rng.randint(3, 7))], "num_stages": 1},
        *({"seconds": [2] * 10, "num_stages": num_stages} for num_stages in (3, 4, 6)),
        {"seconds": [1, 1, 4, 1, 1, 1, 1], "num_stages": 4},  # filling up to the mean puts 5 on one stage
    ]
    for dice, num in ((Random(0), 8), (rng, 2)):  # eight fixed rounds, so that no rule of thumb passes by luck
        for num_stages in (2, 3, 4, 5) * num:
            num_layers = dice.randint(num_stages + 2, 12)
            cases.append({"seconds": [dice.randint(1, 20) for _ in range(num_layers)], "num_stages": num_stages})
    return cases


CHECK = Check(
    exercise="week07.split-stages",
    points=2,
    names=("split_stages",),
    public=(
        {"seconds": [1, 1, 1, 1], "num_stages": 2},
        {"seconds": [1, 1, 1, 1, 1, 1, 4], "num_stages": 3},
        {"seconds": [5, 1, 1, 1, 1, 5], "num_stages": 4},
        {"seconds": [1, 1, 4, 1, 1, 1, 1], "num_stages": 4},
        {"seconds": [10] * 12 + [45], "num_stages": 4},  # GPT-2: its output layer costs as much as 4.5 layers
    ),
    draw=_draw_splits,
    make=formula_task(
        "split_stages", ("seconds", "num_stages"), lambda case: slowest_stage(case["seconds"], case["num_stages"])
    ),
    judge=_judge_split,
    program="without_ranks",
    hints=(
        "First ask: is there a split in which no stage exceeds a given limit? Then find the smallest such limit.",
        "For a given limit, fill one stage after another, but leave at least one layer for each later stage.",
        "Or use recursion: the first stage takes 1, 2, ... layers; the rest is the same problem with one stage fewer.",
    ),
)
