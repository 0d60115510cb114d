"""The coordinate of a rank on every axis, innermost axis first."""

from __future__ import annotations

from random import Random

from autograder.checks.base import Case, Check, Reply, Task
from autograder.checks.formulas import formula_task, numbers_of, trouble_in_call
from autograder.checks.meshes import MASKED, grid_of


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble_in_call(reply):
        return problem
    received, expected = numbers_of(reply), task.expected[0]
    if not isinstance(received, dict) or set(received) != set(expected):
        return f"Return a dict with the coordinates on {', '.join(expected)}."
    for name, place in expected.items():
        if type(received[name]) is not int or received[name] != place:
            return f"With sizes {case['sizes']}, rank {case['rank']} is not at {name} = {received[name]!r}."
    return None


def _draw(rng: Random) -> list[Case]:
    """Two to five axes in several orders, some of one rank; on each mesh the first and last ranks and some others."""
    meshes: list[dict[str, int]] = [{"tp": 8, "dp": 2, "pp": 4}, {"tp": 1, "dp": 7, "pp": 1}]
    for names in (["tp", "cp", "dp", "pp"], ["dp", "tp"], ["pp", "dp", "tp"], ["tp", "cp", "ep", "dp", "pp"]):
        sizes = [2, 3, 4, 5, 1][: len(names)]  # all different, so that swapped axes are noticed
        rng.shuffle(sizes)
        meshes.append(dict(zip(names, sizes, strict=True)))
    worlds = [(sizes, grid_of({"sizes": sizes}).world) for sizes in meshes]
    return [
        {"sizes": sizes, "rank": rank}
        for sizes, world in worlds
        for rank in sorted({0, 1, world - 1, *rng.sample(range(world), min(world, 6))})
    ]


CHECK = Check(
    exercise="week09.coordinates",
    points=1,
    names=("coordinates",),
    public=(
        {"rank": 5, "sizes": {"tp": 2, "dp": 2, "pp": 2}},
        {"rank": 37, "sizes": {"tp": 8, "dp": 8}},
        {"rank": 44, "sizes": {"pp": 2, "cp": 3, "tp": 4, "dp": 2}},
    ),
    draw=_draw,
    make=formula_task("coordinates", ("rank", "sizes"), lambda case: grid_of(case).coordinates(case["rank"])),
    judge=_judge,
    program="without_ranks",
    masked=MASKED,
    hints=(
        "A rank is a number whose digits are the coordinates. The first axis is the last digit, which changes fastest.",
        "The coordinate on the first axis is rank % size; apply the same rule to rank // size for the other axes.",
        "for name, size in sizes.items(): rank, places[name] = divmod(rank, size)",
    ),
)
