"""All groups of some axes: ranks that differ only on these axes, in the order in which every rank makes them."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, numbers_of, trouble_in_call
from autograder.checks.meshes import MASKED, grid_of


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected, asked = numbers_of(reply), task.expected[0], f"For {'-'.join(case['axes'])} of {case['sizes']}"
    if not isinstance(received, list | tuple) or any(not _is_group(group) for group in received):
        return f"{asked}, return a list of lists of ranks."
    plain = [list(group) for group in received]
    return None if plain == expected else f"{asked}, {_what_is_wrong(plain, expected, grid_of(case).world)}"


def _is_group(group: Any) -> bool:
    return isinstance(group, list | tuple) and all(type(rank) is int for rank in group)


def _what_is_wrong(received: list[list[int]], expected: list[list[int]], world: int) -> str:
    counts = [sum(rank in group for group in received) for rank in range(world)]
    if len(received) != len(expected):
        return f"there are {len(expected)} groups, not {len(received)}."
    if wrong := [rank for rank, count in enumerate(counts) if count != 1]:
        return f"rank {wrong[0]} is in {counts[wrong[0]]} groups, but every rank belongs to exactly one."
    if sorted(map(sorted, received)) == expected:
        return "the groups are right, but not their order: sort ranks within a group, and groups by their first rank."
    strange = next(group for group in received if sorted(group) not in expected)
    return f"{strange} is not a group: its ranks must differ on these axes and on no others."


def _draw(rng: Random) -> list[Case]:
    """Several choices of axes on meshes in four orders: adjacent or not, and in the order of the mesh or not."""
    cases: list[Case] = []
    for order in ("tp-cp-dp-pp", "pp-dp-cp-tp", "cp-pp-tp-dp", "dp-tp-pp-cp"):
        sizes = [2, 3, 2, 4]
        rng.shuffle(sizes)
        for axes in (["tp"], ["dp"], ["pp"], ["dp", "cp"], ["cp", "dp"], ["tp", "pp"], ["cp", "dp", "pp"]):
            cases.append({"axes": axes, "sizes": dict(zip(order.split("-"), sizes, strict=True))})
    return [*cases, {"axes": ["tp"], "sizes": {"tp": 1, "dp": 5}}, {"axes": ["dp"], "sizes": {"tp": 4, "dp": 32}}]


CHECK = Check(
    exercise="week09.groups",
    points=2,
    names=("groups",),
    public=(
        {"axes": ["tp"], "sizes": {"tp": 2, "dp": 2, "pp": 2}},
        {"axes": ["pp"], "sizes": {"tp": 2, "dp": 3, "pp": 2}},
        {"axes": ["dp", "cp"], "sizes": {"tp": 2, "cp": 2, "dp": 2}},
    ),
    draw=_draw,
    make=formula_task("groups", ("axes", "sizes"), lambda case: grid_of(case).groups(*case["axes"])),
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    hints=(
        "Two ranks are in the same group if they have the same coordinate on every axis that is not in `axes`.",
        "Go through the ranks in order; use the coordinates on the other axes, as a tuple, as the key of a rank's "
        "group.",
        "found = {}; for each rank: found.setdefault(tuple of other coordinates, []).append(rank). A dict keeps order.",
    ),
)
