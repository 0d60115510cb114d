"""What the judge needs of one submission: for each exercise the student's cells, as text, and nothing else."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import checks, ingest, notebooks
from autograder.checks.base import Check
from autograder.course import ROOT


@dataclass(frozen=True)
class Dossier:
    """One submission, ready to be judged on any machine: `answers[exercise]` is None where there is no cell."""

    student: str
    week: str
    answers: dict[str, dict[str, Any] | None]
    notes: list[str]
    found: bool

    @property
    def digest(self) -> str:
        """The same for the same answers: a submission that has not changed need not be judged again."""
        return hashlib.sha256(json.dumps(self.answers, sort_keys=True).encode()).hexdigest()


def open_dossier(student: str, week: str, submitted: Path, root: Path = ROOT) -> Dossier:
    """Read a submission as data; whatever is wrong with it is a note."""
    submission = ingest.read_submission(student, week, submitted, root)
    answers = {check.exercise: answer_of(check, submission, root) for check in checks.of_week(week)}
    return Dossier(student, week, answers, submission.notes, submission.found)


def answer_of(check: Check, submission: ingest.Submission, root: Path = ROOT) -> dict[str, Any] | None:
    """The student's cells for one exercise: their extra cells, the exercises before it, and its own cell, as text."""
    own = notebooks.grade_id(check.exercise)
    if own not in submission.cells:
        return None
    cells = [[f"{check.exercise} extra {number}", source, False] for number, source in enumerate(submission.extra, 1)]
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
