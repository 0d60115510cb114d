"""Every wrong answer behind every forgery: a lie about what a rank does must not earn a point.

A forgery (`autograder/matrices/forgeries`) is a prefix of the answer's cell. It knows the case at hand and which calls
an honest answer makes in it, and makes what the rank says about itself agree with that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from autograder.checks.base import Check, Reply, calls_of, claimed_calls
from autograder.jobs import plain
from autograder.jobs.message import Job
from autograder.judging.judge import Judge, JudgePool, Verdict
from autograder.matrices import known, sample
from autograder.matrices.kept import Row, RowFile, grader_of, key_of
from autograder.matrices.kill_matrix import PREAMBLE

FORGERIES = Path(__file__).parent / "forgeries"
KNOWN = FORGERIES / "_known.py"
SEED = 1
TRIES = 3  # judgements of the answer alone, and behind the forgery, before a point counts as undeserved
Honest = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Forged:
    """One row to judge: a wrong answer of a check behind a forgery; sources, not files."""

    check: Check
    answer: str
    source: str
    forgery: str
    prefix: str

    @property
    def key(self) -> str:
        """A name of all that decides this row."""
        week = self.check.exercise.split(".")[0]
        return key_of(self.check.exercise, self.source, self.prefix, KNOWN.read_text(), grader_of(week))


@dataclass
class Listening(Judge):
    """A judge that keeps what it asked, and what came back."""

    heard: list[tuple[Job, Reply]] = field(default_factory=list)

    def ask(self, job: Job) -> Reply:
        """As `Judge.ask`."""
        answer = super().ask(job)
        self.heard.append((job, answer))
        return answer


def forgeries() -> dict[str, str]:
    """The source of every forgery, by name."""
    return {path.stem: path.read_text() for path in sorted(FORGERIES.glob("[!_]*.py"))}


def everything(checks: Iterable[Check]) -> list[Forged]:
    """Every wrong answer of the checks that run on ranks, behind every forgery; and a right one, which shows whether

    a forgery breaks what it should only disguise."""
    return [
        Forged(check, one.name, one.source, name, prefix)
        for check in checks
        if check.program == "on_rank"
        for one in known.answers_of(check.exercise)
        if not one.is_right or one == known.right_of(check.exercise)
        for name, prefix in forgeries().items()
    ]


def some(rng: Random, rows: Sequence[Forged], num_exercises: int, num_answers: int, num_forgeries: int) -> list[Forged]:
    """A sample: some exercises, some answers of each, some forgeries before each."""
    chosen: list[Forged] = []
    for exercise in sample.some(rng, sorted({row.check.exercise for row in rows}), num_exercises):
        mine = [row for row in rows if row.check.exercise == exercise]
        for answer in sample.some(rng, sorted({row.answer for row in mine}), num_answers):
            chosen += sample.some(rng, [row for row in mine if row.answer == answer], num_forgeries)
    return chosen


def judged(
    rows: Sequence[Forged], rights: dict[str, str], kept: RowFile | None = None, judges: int = 2
) -> Iterator[Row]:
    """The rows, judged or as they were kept; `rights` is a right answer's source of every exercise.

    A row has exercise, answer, forgery, the points alone and forged, and the sentence of the forged judgement.
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
    """Whether the lie earned something."""
    return row["forged"] > row["alone"]


def is_broken(row: Row) -> bool:
    """Whether a right answer loses points behind the lie: there it is a refusal that stops it, or its own mistake."""
    return row["answer"].startswith("right_") and row["forged"] < row["alone"]


def honest(check: Check, source: str, judge: Judge) -> Honest:
    """Calls and bytes held of honest ranks in each case. Raises ValueError for a wrong answer."""
    listening = Listening(judge.zygote)
    verdict = judged_once(listening, check, source)
    judge.zygote = listening.zygote
    if not verdict.is_right:
        raise ValueError(f"an honest answer of {check.exercise} gets {verdict.points:g} points: {verdict.text}")
    claims: Honest = {}
    for job, answer in listening.heard:
        for rank, came in enumerate(answer.ranks):
            held = came.get("trained", {}).get("held_bytes", {})
            made = calls_of(answer, rank) if answer.reads_calls else claimed_calls(answer, rank)
            calls = [list(call[:5]) for call in sorted(made, key=lambda call: call.number)]
            claims[_case(rank, job.inputs[rank])] = {"calls": calls, "held": held}
    return claims


def _case(rank: int, mine: Any) -> str:
    """The name under which a forgery in a rank finds its case: its rank and its input."""
    return f"{rank}:{hashlib.sha256(plain.encode(mine)).hexdigest()[:24]}"


def judged_once(judge: Judge, check: Check, source: str) -> Verdict:
    """One judgement of a cell, on the numbers that all rows share."""
    return judge.judge(check, {"preamble": PREAMBLE, "cells": [[check.exercise, source, True]]}, SEED)


def cell(claims: Honest, prefix: str, source: str) -> str:
    """An answer's cell with a forgery above it."""
    return f"HONEST = {claims!r}\n{KNOWN.read_text()}\n{prefix}\n{source}"


def _row(judge: Judge, row: Forged, alone: Verdict, claims: Honest) -> Row | None:
    """Both points; where the forged ones are more, each is judged again, as a busy machine can take points away.

    None where the machine failed: such a row is judged in the next run.
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
    """The sentence of a verdict, without the traceback above its last line."""
    lines = verdict.text.split("\nHint:")[0].splitlines()
    return " … ".join(lines if len(lines) < 3 else [lines[0], lines[-1]])[:240]
