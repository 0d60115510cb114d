"""Grade the submissions of a week: read as data, judge in the sandbox, write verdicts, publish to nbgrader."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from autograder import checks, ingest, notebooks
from autograder.checks.base import Check
from autograder.course import ROOT
from autograder.judge import Judge, JudgePool, seed_for
from autograder.sandbox import level

NOT_ANSWERED = "There is no cell for this exercise: was it deleted?"
Verdicts = dict[str, Any]


def students_in(submitted: Path, week: str) -> list[str]:
    """The students who have a folder for this week below `submitted`, by name."""
    if not Path(submitted).is_dir():
        raise ValueError(f"{submitted} is not a folder: give the folder that holds STUDENT/{week}/{week}.ipynb")
    return sorted(path.name for path in Path(submitted).iterdir() if path.is_dir() and (path / week).exists())


def grade(
    week: str,
    submitted: Path,
    *,
    root: Path = ROOT,
    students: Sequence[str] | None = None,
    seed: int | None = None,
    workers: int | None = None,
    done: Callable[[Verdicts], None] = lambda verdicts: None,
) -> list[Verdicts]:
    """Judge the submissions of a week, several at a time, and write one verdict file each. Nothing is published yet.

    `seed` draws the inputs of a regrade again; by default every run draws new ones. `done` is called after each.
    Returns the verdicts by student. Raises ValueError for an unknown week or folder.
    """
    week = notebooks.find_week(week, root)
    names = sorted(students) if students is not None else students_in(submitted, week)
    chosen = secrets.randbits(32) if seed is None else seed
    verdicts = []
    with JudgePool(max(1, min(workers or os.cpu_count() or 1, len(names)))) as pool:
        for one in pool.map(lambda judge, name: grade_one(name, week, submitted, judge, chosen, root), names):
            verdicts.append(one)
            done(one)
    return verdicts


def grade_one(
    student: str, week: str, submitted: Path, judge: Judge, seed: int, root: Path = ROOT, target: Path | None = None
) -> Verdicts:
    """Judge one submission and write autograder/verdicts/STUDENT/WEEK.json below `target`, or below `root`."""
    began = time.monotonic()
    submission = ingest.read_submission(student, week, submitted, root)
    exercises = {}
    for check in checks.of_week(week):
        exercises[check.exercise] = _judge_exercise(check, submission, judge, seed_for(seed, student), root)
    verdicts: Verdicts = {
        "student": student,
        "assignment": week,
        "submitted": submission.found,
        "seed": seed,
        "level": level(),
        "seconds": round(time.monotonic() - began, 3),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {name: metadata.version(name) for name in ("sys602", "torch", "nbgrader")},
        "notes": submission.notes,
        "exercises": exercises,
    }
    write_verdicts(verdicts, target or root)
    return verdicts


def _judge_exercise(check: Check, submission: ingest.Submission, judge: Judge, seed: int, root: Path) -> dict[str, Any]:
    answer = answer_of(check, submission, root)
    if answer is None:
        reason = submission.notes[0] if submission.notes and not submission.cells else NOT_ANSWERED
        return {"points": 0.0, "max": float(check.points), "text": reason, "fault": False}
    verdict = judge.judge(check, answer, seed)
    return {"points": verdict.points, "max": float(verdict.max), "text": verdict.text, "fault": verdict.fault}


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


def write_verdicts(verdicts: Verdicts, root: Path = ROOT) -> Path:
    """Write a verdict file so that a kill leaves the old one or the new one, never half of one."""
    path = Path(root) / "autograder" / "verdicts" / verdicts["student"] / f"{verdicts['assignment']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps(verdicts, indent=1, ensure_ascii=False))
    draft.replace(path)
    return path


def summary(verdicts: Sequence[Verdicts]) -> list[dict[str, Any]]:
    """What `--json` writes: per student, per exercise: points, max, text."""
    return [
        {
            "student": one["student"],
            "points": sum(exercise["points"] for exercise in one["exercises"].values()),
            "max": sum(exercise["max"] for exercise in one["exercises"].values()),
            "exercises": {
                name: {key: exercise[key] for key in ("points", "max", "text")}
                for name, exercise in one["exercises"].items()
            },
        }
        for one in verdicts
    ]


def write_csv(verdicts: Sequence[Verdicts], path: Path) -> None:
    """One line a student, one column an exercise, points only; manual cells are in nbgrader's own export."""
    names = list(verdicts[0]["exercises"]) if verdicts else []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["student", *names, "points", "max"])
        for row in summary(verdicts):
            points = [row["exercises"][name]["points"] for name in names]
            writer.writerow([row["student"], *points, row["points"], row["max"]])
