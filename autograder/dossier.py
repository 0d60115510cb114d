"""What the judge needs of one submission: for each exercise the student's cells, as text, and nothing else."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder import checks, ingest, notebooks
from autograder.course import ROOT


@dataclass(frozen=True)
class Dossier:
    """One submission, ready to be judged on any machine: `answers[exercise]` is None where there is no cell.

    `exhibits` holds the code cells that the instructor grades, where something was written.
    """

    student: str
    week: str
    answers: dict[str, dict[str, Any] | None]
    notes: list[str]
    found: bool
    exhibits: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The same for the same answers: a submission that has not changed need not be judged again."""
        whole = [self.answers, self.exhibits] if self.exhibits else self.answers
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def open_dossier(student: str, week: str, submitted: Path, root: Path = ROOT) -> Dossier:
    """Read a submission as data; whatever is wrong with it is a note."""
    submission = ingest.read_submission(student, week, submitted, root)
    answers = {check.exercise: answer_of(check.exercise, submission, root) for check in checks.of_week(week)}
    shown = {name: answer_of(name, submission, root) for name in _to_show(submission, root)}
    exhibits = {name: answer for name, answer in shown.items() if answer is not None}
    return Dossier(student, week, answers, submission.notes, submission.found, exhibits)


def _to_show(submission: ingest.Submission, root: Path) -> list[str]:
    """The exercises whose code cell the instructor grades and the student has written in."""
    names = []
    for cell in notebooks.release(submission.week, root).cells:
        marks = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and marks.get("grade") and marks.get("solution"):
            written = submission.cells.get(marks["grade_id"], "").strip()
            names += [notebooks.exercise_id(marks["grade_id"])] if written not in ("", cell.source.strip()) else []
    return names


def answer_of(exercise: str, submission: ingest.Submission, root: Path = ROOT) -> dict[str, Any] | None:
    """The student's cells for one exercise: their extra cells, the exercises before it, and its own cell, as text."""
    own = notebooks.grade_id(exercise)
    if own not in submission.cells:
        return None
    cells = [[f"{exercise} extra {number}", source, False] for number, source in enumerate(submission.extra, 1)]
    for cell in notebooks.release(submission.week, root).cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if cell.cell_type == "code" and name in submission.cells:
            cells.append([notebooks.exercise_id(name), submission.cells[name], name == own])
        if name == own:
            break
    return {"preamble": preamble(submission.week, "\n".join(cell[1] for cell in cells), root), "cells": cells}


def preamble(week: str, used_in: str, root: Path = ROOT) -> str:
    """The notebook's own imports that the student's cells rely on: what they do not name, no rank needs to import."""
    words = set(re.findall(r"\w+", used_in))
    return "\n".join(
        ast.unparse(node)
        for node in _imports(week, root)
        if words & {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    )


def _imports(week: str, root: Path) -> list[ast.Import | ast.ImportFrom]:
    """Every import of the notebook's own cells, one name each."""
    imports: list[ast.Import | ast.ImportFrom] = []
    for cell in notebooks.release(week, root).cells:
        if cell.cell_type != "code" or cell.metadata.get("nbgrader", {}).get("solution"):
            continue
        plain = "\n".join("pass" if line.lstrip().startswith(("!", "%")) else line for line in cell.source.splitlines())
        for node in ast.parse(plain).body:
            if isinstance(node, ast.Import):
                imports += [ast.Import([alias]) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imports += [ast.ImportFrom(node.module, [alias], node.level) for alias in node.names]
    return imports
