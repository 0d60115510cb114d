"""The same answer must always get the same points: judge every known answer under many seeds, which draw the inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autograder.checks.base import Check
from autograder.judging.judge import Judge, JudgePool
from autograder.matrices import known
from autograder.matrices.kept import Row, RowFile, grader_of, key_of
from autograder.matrices.kill_matrix import PREAMBLE
from autograder.matrices.known import Known

RIGHT_SEEDS = 20  # for right answers on ranks; wrong ones get a quarter, answers without ranks (quick) 5/2 of it


@dataclass(frozen=True)
class Seeded:
    """One row to judge: an answer to a check, and the number of seeds."""

    check: Check
    answer: str
    source: str
    num_seeds: int

    @property
    def key(self) -> str:
        """A hash of everything that determines this row."""
        return key_of(self.check.exercise, self.source, grader_of(self.check.exercise.split(".")[0]))


def everything(checks: Iterable[Check], seeds: int = RIGHT_SEEDS) -> list[Seeded]:
    """Every known answer to the checks; those without ranks come first, because they are quick."""
    rows = [
        Seeded(check, one.name, one.source, num_seeds(check, one, seeds))
        for check in checks
        for one in known.answers_of(check.exercise)
    ]
    return sorted(rows, key=lambda row: row.check.program == "on_rank")


def num_seeds(check: Check, one: Known, seeds: int) -> int:
    """The number of seeds under which an answer is judged."""
    if check.program == "without_ranks":
        return seeds * 5 // 2
    return seeds if one.is_right else max(2, seeds // 4)


def judged(rows: Sequence[Seeded], kept: RowFile | None = None, judges: int = 2) -> Iterator[Row]:
    """Yield the rows, judged or kept from an earlier run: exercise, answer, and the points under seeds 1, 2, …

    The points are None for a seed under which the machine failed. A kept row is judged only under its missing seeds.
    """

    def points(judge: Judge, row: Seeded) -> Row:
        old = kept.get(row.key) if kept is not None else None
        known = [] if old is None else old["points"][: row.num_seeds]
        new = [_points(judge, row, seed) for seed in range(len(known) + 1, row.num_seeds + 1)]
        return {"key": row.key, "exercise": row.check.exercise, "answer": row.answer, "points": known + new}

    with JudgePool(judges) as pool:
        for row in pool.map(points, rows):
            if kept is not None and kept.get(row["key"]) != row:
                kept.add(row)
            yield row


def differs(row: Row) -> bool:
    """Whether an answer gets different points under different seeds."""
    return len({points for points in row["points"] if points is not None}) > 1


def _points(judge: Judge, row: Seeded, seed: int) -> float | None:
    answer = {"preamble": PREAMBLE, "cells": [[row.check.exercise, row.source, True]]}
    verdict = judge.judge(row.check, answer, seed)
    return None if verdict.fault else verdict.points
