"""The part of a submission that the judge needs: for each exercise, only the student's cells, as text."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder import weeks
from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.checks.base import Check
from autograder.reading import ingest
from autograder.reading.answers import answer_in, cells_of


@dataclass(frozen=True)
class Dossier:
    """One submission, ready to be judged on any machine. `answers[exercise]` is None if there is no cell.

    `exhibits` holds the code cells that the instructor grades, if the student has written anything in them. `digest`
    identifies the submission: an unchanged one need not be judged again, and a verdict is valid only for its digest.
    """

    student: str
    week: str
    answers: dict[str, dict[str, Any] | None]
    notes: list[str]
    found: bool
    exhibits: dict[str, dict[str, Any]] = field(default_factory=dict)
    digest: str = ""


def open_dossier(student: str, week: str, submitted: Path, root: Path = ROOT) -> Dossier:
    """Read a submission as data; every problem becomes a note."""
    return dossier_of(ingest.read_submission(student, week, submitted, root), root)


def dossier_of(submission: ingest.Submission, root: Path = ROOT) -> Dossier:
    """The dossier of a submission that has been read."""
    student, week = submission.student, submission.week
    cells = cells_of(submission, root)
    answers = {one.exercise: answer_in(cells, one.exercise, one.names) for one in in_page_order(week, root)}
    for answer in answers.values():
        if answer is not None and submission.own:
            answer["own"] = submission.own
    shown = {name: answer_in(cells, name, ()) for name in _to_show(submission, root)}
    exhibits = {name: answer for name, answer in shown.items() if answer is not None}
    digest = _digest([answers, exhibits, submission.cells, submission.extra, submission.places])  # `own` is in answers
    return Dossier(student, week, answers, submission.notes, submission.found, exhibits, digest)


def _digest(taken: list[Any]) -> str:
    """Hash everything taken from a submission, including written answers, and the page's cells that run with it."""
    return hashlib.sha256(json.dumps(taken, sort_keys=True).encode()).hexdigest()


def in_page_order(week: str, root: Path = ROOT) -> list[Check]:
    """The checks of a week in the order of its page; checks that are not on the page come last."""
    cells = notebooks.release(week, root).cells
    names = [notebooks.exercise_id(cell.metadata.nbgrader.grade_id) for cell in cells if "nbgrader" in cell.metadata]
    return sorted(weeks.of_week(week), key=lambda check: [*names, check.exercise].index(check.exercise))


def _to_show(submission: ingest.Submission, root: Path) -> list[str]:
    """The exercises with a code cell that the instructor grades and the student has changed."""
    names = []
    for cell in notebooks.release(submission.week, root).cells:
        marks = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and marks.get("grade") and marks.get("solution"):
            written = submission.cells.get(marks["grade_id"], "").strip()
            names += [notebooks.exercise_id(marks["grade_id"])] if written not in ("", cell.source.strip()) else []
    return names
