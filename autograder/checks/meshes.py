"""Helpers for checks of a mesh: the axis sizes of a case, and the groups of ranks that they define."""

from __future__ import annotations

from typing import Any

from shardlab.mesh import Grid

from autograder.checks.base import Case

MASKED = ("shardlab.mesh", "shardlab.commands.mesh", "shardlab.hybrid")


def grid_of(case: Case) -> Grid:
    """The grid of a case's `sizes`, the innermost axis first."""
    return Grid(tuple(case["sizes"].items()))


def groups_by_rank(grid: Grid, names: dict[str, tuple[str, ...]]) -> tuple[list[list[int]], list[dict[str, int]]]:
    """All groups that a task creates, and for each rank the index of the group that is passed under each name."""
    made: list[list[int]] = []
    mine: list[dict[str, int]] = [{} for _ in range(grid.world)]
    for name, axes in names.items():
        for members in grid.groups(*axes):
            for rank in members:
                mine[rank][name] = len(made)
            made.append(members)
    return made, mine


def task_inputs(args: list[list[Any]], mine: list[dict[str, int]]) -> list[dict[str, Any]]:
    """The inputs of every rank: its arguments and its groups."""
    return [{"args": own, "groups": groups} for own, groups in zip(args, mine, strict=True)]
