"""Judge every known answer with its check: wrong answers must be rejected, and right ones must be accepted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from autograder.checks.base import Check
from autograder.judging.judge import Judge, JudgePool, Verdict
from autograder.judging.self_check import PUBLIC_SEED
from autograder.matrices import known
from autograder.matrices.known import Known
from autograder.weeks import WEEKS

IN_SIGHT = 0.9  # share of wrong answers that the visible check must reject; the others state why it may not
PREAMBLE = (
    "import math, os, time\nfrom contextlib import suppress\nimport torch\nimport torch.distributed as dist\n"
    "import shardlab\nfrom shardlab import meter\n"
)


@dataclass(frozen=True)
class KillRow:
    """One answer of the matrix: a description, whether it must live (be accepted), and whether it did."""

    exercise: str
    name: str
    story: str
    must_live: bool
    lived: bool
    text: str
    in_sight: bool = False
    reason: str = ""

    @property
    def ended_as_expected(self) -> bool:
        """Whether the answer got the expected result."""
        return self.must_live == self.lived

    @property
    def is_unexplained(self) -> bool:
        """Whether it is wrong and passes the visible check without a stated reason."""
        return not (self.must_live or self.in_sight or self.reason)


def share_in_sight(rows: Iterable[KillRow]) -> float:
    """The share of wrong answers that the visible check rejects; 1 if there are none."""
    seen = [row.in_sight for row in rows if not row.must_live]
    return sum(seen) / len(seen) if seen else 1.0


def rows(weeks: list[str] | None = None, seed: int = 1) -> Iterator[KillRow]:
    """Judge every known answer of the weeks, one per core at a time, and yield the rows in order."""
    answers = [
        (check, one)
        for week in weeks or list(WEEKS)
        for check in WEEKS[week]
        for one in known.answers_of(check.exercise)
    ]
    with JudgePool(os.cpu_count() or 1) as pool:
        yield from pool.map(lambda judge, answer: row_of(judge, *answer, seed), answers)


def row_of(judge: Judge, check: Check, one: Known, seed: int = 1) -> KillRow:
    """Judge one known answer, and determine whether a student would have seen that it is wrong."""
    answer = {"preamble": PREAMBLE, "cells": [[check.exercise, one.source, True]]}
    verdict = judge.judge(check, answer, seed, until_in_sight=True)
    return KillRow(
        check.exercise,
        one.name,
        one.story,
        one.is_right,
        verdict.is_right,
        verdict.text,
        _is_in_sight(judge, check, answer, verdict),
        one.reason,
    )


def _is_in_sight(judge: Judge, check: Check, answer: dict[str, Any], verdict: Verdict) -> bool:
    """Whether the visible check shows that an answer is wrong; if a lost job left that open, run the visible check."""
    if verdict.in_sight is None:
        return not judge.judge(check, answer, PUBLIC_SEED, check.public).is_right
    return verdict.in_sight
