"""The same answer, the same points: every kept answer under many seeds, each of which draws other inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autograder.checks.base import Check
from autograder.judging.judge import Judge, JudgePool
from autograder.matrices import known
from autograder.matrices.kept import Row, RowFile, grader_of, key_of
from autograder.matrices.kill_matrix import PREAMBLE
from autograder.matrices.known import Known

RIGHT_SEEDS = 20  # of a right answer on ranks; a wrong one gets a quarter of them, one without ranks (quick) 5 / 2


@dataclass(frozen=True)
class Seeded:
    """One row to judge: an answer of a check, and under how many seeds."""

    check: Check
    answer: str
    source: str
    num_seeds: int

    @property
    def key(self) -> str:
        """A name of all that decides this row."""
        return key_of(self.check.exercise, self.source, grader_of(self.check.exercise.split(".")[0]))


def everything(checks: Iterable[Check], seeds: int = RIGHT_SEEDS) -> list[Seeded]:
    """Every kept answer of the checks, those without ranks first: they are quick."""
    rows = [
        Seeded(check, one.name, one.source, num_seeds(check, one, seeds))
        for check in checks
        for one in known.answers_of(check.exercise)
    ]
    return sorted(rows, key=lambda row: row.check.program == "on_rank")


def num_seeds(check: Check, one: Known, seeds: int) -> int:
    """How many seeds an answer is judged under."""
    if check.program == "without_ranks":
        return seeds * 5 // 2
    return seeds if one.is_right else max(2, seeds // 4)


def judged(rows: Sequence[Seeded], kept: RowFile | None = None, judges: int = 2) -> Iterator[Row]:
    """The rows, judged or as they were kept: exercise, answer, and the points under seed 1, 2, …

    None stands for a seed under which the machine failed. A kept row with fewer seeds is judged under the missing ones.
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
    """Whether an answer gets other points under another seed."""
    return len({points for points in row["points"] if points is not None}) > 1


def _points(judge: Judge, row: Seeded, seed: int) -> float | None:
    answer = {"preamble": PREAMBLE, "cells": [[row.check.exercise, row.source, True]]}
    verdict = judge.judge(row.check, answer, seed)
    return None if verdict.fault else verdict.points
