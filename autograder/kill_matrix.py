"""Every known wrong answer against every check: all must die, and every honest variant must live."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.checks import WEEKS
from autograder.checks.base import Check
from autograder.judge import Judge, JudgePool

MUTANTS = Path(__file__).parent / "mutants"
PREAMBLE = (
    "import math, os, time\nfrom contextlib import suppress\nimport torch\nimport torch.distributed as dist\n"
    "import shardlab\nfrom shardlab import meter\n"
)


@dataclass(frozen=True)
class Row:
    """One answer of the matrix: what it is, whether it must live, and whether it did."""

    exercise: str
    name: str
    story: str
    must_live: bool
    lived: bool
    text: str

    @property
    def is_due(self) -> bool:
        """Whether it ended as it must."""
        return self.must_live == self.lived


def mutants_of(check: Check) -> list[Path]:
    """The answers kept for one exercise: `right_*.py` are honest, the others are wrong each in one way."""
    week, name = check.exercise.split(".")
    return sorted((MUTANTS / week / name.replace("-", "_")).glob("*.py"))


def rows(weeks: list[str] | None = None, seed: int = 1) -> Iterator[Row]:
    """Judge every kept answer of the weeks, one a core at a time, and give the rows in order."""
    answers = [(check, path) for week in weeks or list(WEEKS) for check in WEEKS[week] for path in mutants_of(check)]
    with JudgePool(os.cpu_count() or 1) as pool:
        yield from pool.map(lambda judge, answer: _row(judge, *answer, seed), answers)


def _row(judge: Judge, check: Check, path: Path, seed: int) -> Row:
    source = path.read_text()
    answer = {"preamble": PREAMBLE, "cells": [[check.exercise, source, True]]}
    verdict = judge.judge(check, answer, seed)
    story = (ast.get_docstring(ast.parse(source)) or path.stem).splitlines()[0]
    return Row(check.exercise, path.stem, story, path.stem.startswith("right_"), verdict.is_right, verdict.text)
