"""Judge every wrong answer behind every forgery: lying about what a rank does must not earn points.

A forgery (a cell of `autograder/matrices/forgeries.py`) is code that comes before the answer in its cell. It knows the
current case and the calls that an honest answer makes in it, and it makes the rank's own reports agree with those.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from autograder.authoring import percent
from autograder.checks.base import Check, Reply, calls_of, claimed_calls
from autograder.jobs import plain
from autograder.jobs.message import Job
from autograder.judging.judge import Judge, JudgePool, Verdict
from autograder.matrices import known, sample
from autograder.matrices.kept import Row, RowFile, grader_of, key_of
from autograder.matrices.kill_matrix import PREAMBLE

FORGERIES = Path(__file__).with_name("forgeries.py")
SEED = 1
TRIES = 3  # how often the answer is judged, alone and behind the forgery, before points count as undeserved
Honest = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Forged:
    """One row to judge: a wrong answer to a check behind a forgery, both as source text."""

    check: Check
    answer: str
    source: str
    forgery: str
    prefix: str

    @property
    def key(self) -> str:
        """A hash of everything that determines this row."""
        week = self.check.exercise.split(".")[0]
        return key_of(self.check.exercise, self.source, self.prefix, opening(), grader_of(week))


@dataclass
class Listening(Judge):
    """A judge that keeps its jobs and their replies."""

    heard: list[tuple[Job, Reply]] = field(default_factory=list)

    def ask(self, job: Job) -> Reply:
        """Like `Judge.ask`."""
        answer = super().ask(job)
        self.heard.append((job, answer))
        return answer


@functools.cache
def forgeries() -> dict[str, str]:
    """The source of every forgery, by name."""
    return {one.name: one.text for one in percent.named_cells(FORGERIES)[1:]}


@functools.cache
def opening() -> str:
    """The source that comes before every forgery."""
    return percent.named_cells(FORGERIES)[0].text


def everything(checks: Iterable[Check]) -> list[Forged]:
    """All wrong answers and one right answer to each check that runs on ranks, each behind every forgery.

    The right answer shows whether a forgery breaks the answer instead of only disguising it.
    """
    return [
        Forged(check, one.name, one.source, name, prefix)
        for check in checks
        if check.program == "on_rank"
        for one in _wrong_ones_and_a_right_one(check.exercise)
        for name, prefix in forgeries().items()
    ]


def _wrong_ones_and_a_right_one(exercise: str) -> list[known.Known]:
    right = known.right_of(exercise)
    return [one for one in known.answers_of(exercise) if not one.is_right or one == right]


def some(rng: Random, rows: Sequence[Forged], num_exercises: int, num_answers: int, num_forgeries: int) -> list[Forged]:
    """A sample: some exercises, some answers to each, some forgeries for each answer."""
    chosen: list[Forged] = []
    for exercise in sample.some(rng, sorted({row.check.exercise for row in rows}), num_exercises):
        mine = [row for row in rows if row.check.exercise == exercise]
        for answer in sample.some(rng, sorted({row.answer for row in mine}), num_answers):
            chosen += sample.some(rng, [row for row in mine if row.answer == answer], num_forgeries)
    return chosen


def judged(
    rows: Sequence[Forged], rights: dict[str, str], kept: RowFile | None = None, judges: int = 2
) -> Iterator[Row]:
    """Yield the rows, judged or kept from an earlier run; `rights` holds the source of a right answer per exercise.

    A row has exercise, answer, forgery, the points alone and forged, and the feedback of the forged judgment.
    """
    missing = [row for row in rows if kept is None or kept.get(row.key) is None]
    yield from (old for row in rows if kept is not None and (old := kept.get(row.key)) is not None)
    with JudgePool(judges) as pool:
        checks = list({row.check.exercise: row.check for row in missing}.values())
        heard = pool.map(lambda judge, check: honest(check, rights[check.exercise], judge), checks)
        claims = {check.exercise: claim for check, claim in zip(checks, heard, strict=True)}
        alone: dict[tuple[str, str], Verdict] = {}

        def both(judge: Judge, row: Forged) -> Row | None:
            place = row.check.exercise, row.answer
            if place not in alone:
                alone[place] = judged_once(judge, row.check, row.source)
            return _row(judge, row, alone[place], claims[row.check.exercise])

        for row in pool.map(both, missing):
            if row is None:
                continue
            if kept is not None:
                kept.add(row)
            yield row


def is_undeserved(row: Row) -> bool:
    """Whether the forgery earned points."""
    return row["forged"] > row["alone"]


def is_broken(row: Row) -> bool:
    """Whether a right answer loses points behind the forgery, which was refused or is itself broken."""
    return row["answer"].startswith("right_") and row["forged"] < row["alone"]


def honest(check: Check, source: str, judge: Judge) -> Honest:
    """The calls and held bytes of honest ranks in each case. Raises ValueError for a wrong answer."""
    listening = Listening(judge.zygote)
    verdict = judged_once(listening, check, source)
    judge.zygote = listening.zygote
    if not verdict.is_right:
        raise ValueError(f"an honest answer to {check.exercise} gets {verdict.points:g} points: {verdict.text}")
    claims: Honest = {}
    for job, answer in listening.heard:
        for rank, came in enumerate(answer.ranks):
            held = came.get("trained", {}).get("held_bytes", {})
            made = calls_of(answer, rank) if answer.reads_calls else claimed_calls(answer, rank)
            calls = [list(call[:5]) for call in sorted(made, key=lambda call: call.number)]
            claims[_case(rank, job.inputs[rank])] = {"calls": calls, "held": held}
    return claims


def _case(rank: int, mine: Any) -> str:
    """The key with which a forgery in a rank looks up its case: its rank and a hash of its input."""
    return f"{rank}:{hashlib.sha256(plain.encode(mine)).hexdigest()[:24]}"


def judged_once(judge: Judge, check: Check, source: str) -> Verdict:
    """Judge a cell once, on the inputs that all rows share."""
    return judge.judge(check, {"preamble": PREAMBLE, "cells": [[check.exercise, source, True]]}, SEED)


def cell(claims: Honest, prefix: str, source: str) -> str:
    """An answer's cell with a forgery above it."""
    return f"HONEST = {claims!r}\n{opening()}\n{prefix}\n{source}"


def _row(judge: Judge, row: Forged, alone: Verdict, claims: Honest) -> Row | None:
    """Both points; if the forgery earns more, judge both again, because a busy machine can cost points.

    None if the machine failed; such a row is judged in the next run.
    """
    source = cell(claims, row.prefix, row.source)
    forged = judged_once(judge, row.check, source)
    own, points = alone.points, forged.points
    for _ in range(TRIES - 1):
        if points > own:
            own = max(own, judged_once(judge, row.check, row.source).points)
            points = min(points, judged_once(judge, row.check, source).points)
    if alone.fault or forged.fault:
        return None
    names = {"key": row.key, "exercise": row.check.exercise, "answer": row.answer, "forgery": row.forgery}
    return names | {"alone": own, "forged": points, "text": _said(forged)}


def _said(verdict: Verdict) -> str:
    """The feedback of a verdict, with only the last line of a traceback."""
    lines = verdict.text.split("\nHint:")[0].splitlines()
    return " … ".join(lines if len(lines) < 3 else [lines[0], lines[-1]])[:240]
