"""A group for every axis, made on real ranks: no rank waits forever, and each group sums over the right ranks.

The given `sum_on_each_axis` sums over the groups that the student's `my_groups` returns; "outer" is all axes except the
first, combined.
"""

from __future__ import annotations

from random import Random

import torch

from autograder.checks.base import Case, Check, Reply, Task, touched_input, trouble
from autograder.checks.meshes import MASKED, grid_of


def axes_of(case: Case) -> dict[str, list[str]]:
    """The axes of each sum, as in the page's `sum_on_each_axis`."""
    return {name: [name] for name in case["sizes"]} | {"outer": list(case["sizes"])[1:]}


def _make(case: Case, rng: Random) -> Task:
    grid = grid_of(case)
    numbers = [rng.randrange(1, 1 << 20) for _ in range(grid.world)]  # random, so that no rank can guess another's
    expected = [
        {name: sum(numbers[member] for member in grid.group_of(rank, *axes)) for name, axes in axes_of(case).items()}
        for rank in range(grid.world)
    ]
    tensors = [torch.tensor([float(number)]) for number in numbers]
    inputs = [{"args": [tensor, case["sizes"]], "groups": {}} for tensor in tensors]
    return Task(
        call="sum_on_each_axis",
        ranks=grid.world,
        groups=[],
        inputs=inputs,
        expected=expected,
        keeps_inputs=True,
        returns_inputs=True,  # the sum over an axis of one rank may be its own number
    )


def _judge(case: Case, task: Task, reply: Reply) -> str | None:
    if problem := trouble(reply):
        return problem
    if problem := _over_the_world(reply):
        return problem
    grid, axes = grid_of(case), axes_of(case)
    for rank, expected in enumerate(task.expected):
        reported = reply.ranks[rank]
        received = reported.get("value", {}).get("plain")
        if not isinstance(received, dict) or set(received) != set(expected):
            return f"Rank {rank} must return a dict with a sum for each of {', '.join(expected)}."
        for name, total in expected.items():
            number = (
                received[name].item()
                if isinstance(received[name], torch.Tensor) and received[name].numel() == 1
                else received[name]
            )
            if type(number) not in (int, float) or number != total:
                members = ", ".join(map(str, grid.group_of(rank, *axes[name])))
                return f"On rank {rank}, the sum over {name} is not that of its group, ranks {members}."
        if problem := touched_input(rank, {**reported, "shares_input": False}, task):
            return problem
    return None


def _over_the_world(reply: Reply) -> str | None:
    """Numbers must be sent inside the groups that the answer makes, not over the world's connections."""
    for rank, calls in enumerate(reply.calls or []):
        if calls:
            return (
                f"Rank {rank} calls {calls[0].kind} on the group of all ranks. Make a group for each axis, and sum "
                "over "
                "this group only."
            )
    return None


def _draw(rng: Random) -> list[Case]:
    """Three axes, axes of unequal size, an axis of one rank, a world of one; `_make` draws the numbers."""
    drawn = ({"tp": 2, "dp": 2, "pp": 2}, {"dp": 2, "tp": 3}, {"pp": 3, "dp": 1, "tp": 2}, {"tp": 1, "dp": 1})
    return [{"sizes": sizes} for sizes in drawn]


CHECK = Check(
    exercise="week09.same-order",
    points=2,
    names=("sum_on_each_axis",),
    public=tuple({"sizes": sizes} for sizes in ({"tp": 2, "dp": 2}, {"tp": 2, "pp": 2}, {"tp": 2, "dp": 1, "pp": 2})),
    draw=_draw,
    make=_make,
    judge=_judge,
    masked=MASKED,
    makes_groups=True,
    timeout=20.0,
    hints=(
        "Which ranks must call dist.new_group: the members, or all of them?",
        "Every rank goes through the same list of groups in the same order, and keeps the one that it is in.",
        "for name, chosen in axes.items(): for members in groups(chosen, sizes): made = dist.new_group(members); keep "
        "it under the name if the rank is in members.",
    ),
)
