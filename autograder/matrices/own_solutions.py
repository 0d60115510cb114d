"""Grade the course's own solutions like student submissions: each must get every automatic point, for any inputs."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from shardlab.own.packing import MIME

from autograder import weeks
from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.grading.grade import grade_one
from autograder.judging.judge import Judge, JudgePool
from autograder.judging.measured import Measured, noting
from autograder.judging.self_check import PUBLIC_SEED
from autograder.reading.dossier import open_dossier

STUDENT = "own-solution"


@dataclass(frozen=True)
class WeekResult:
    """The result of one week's solution with one seed; `lost` has a line per exercise that lost points."""

    week: str
    seed: int
    points: float
    max: float
    lost: list[str]


def rows(
    weeks: Sequence[str] | None = None, seeds: Sequence[int] = (1, 2, 3), root: Path = ROOT
) -> Iterator[WeekResult]:
    """Submit the solutions of these weeks, or of all weeks, and judge them with each seed, one job per core."""
    names = [notebooks.find_week(week, root) for week in weeks or notebooks.weeks(root)]
    with tempfile.TemporaryDirectory() as folder, JudgePool(os.cpu_count() or 1) as pool:
        submitted = Path(folder)
        for week in names:
            hand_in(week, submitted, root)
        runs = [(week, seed) for week in names for seed in seeds]
        yield from pool.map(lambda judge, run: row_of(judge, *run, submitted, root), runs)


def hand_in(week: str, submitted: Path, root: Path = ROOT, mine: Mapping[str, str] | None = None) -> Path:
    """Copy the solution of each exercise into the released notebook of course/, and save it as a submission.

    mine: {module: source} for the output of the cell that submits a student's own trainer.
    """
    notebook = nbformat.read(notebooks.release_path(week, root), 4)
    answers = {cell.id: cell.source for cell in notebooks.read_source(week, root).cells}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers[cell.id]
        if mine and cell.source.endswith("pack()"):
            cell.outputs = [nbformat.v4.new_output("display_data", {MIME: json.dumps(dict(mine))})]
    path = submitted / STUDENT / week / f"{week}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    return path


def measured(exercise: str, root: Path = ROOT) -> list[Measured]:
    """Measure what each rank sends and holds when the solution of one exercise runs on its visible cases.

    Raises ValueError for an exercise without a check, or if this copy of the course has no solutions.
    """
    check = weeks.find(exercise)
    week = notebooks.find_week(exercise.partition(".")[0], root)
    if not notebooks.source_path(week, root).is_file():
        raise ValueError(f"this copy of the course has no solutions, so there is none for {exercise}")
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder, Judge() as judge:
        hand_in(week, Path(folder), root)
        answer = open_dossier(STUDENT, week, Path(folder), root).answers[exercise]
        judge.judge(noting(check, found), answer or {}, PUBLIC_SEED, check.public)
    return found


def row_of(judge: Judge, week: str, seed: int, submitted: Path, root: Path = ROOT) -> WeekResult:
    """Judge one submitted solution."""
    verdicts = grade_one(STUDENT, week, submitted, judge, seed, root)
    exercises = verdicts["exercises"]
    points, most = (sum(one[key] for one in exercises.values()) for key in ("points", "max"))
    lost = [f"{name}: {one['text']}" for name, one in exercises.items() if one["points"] < one["max"]]
    return WeekResult(verdicts["assignment"], verdicts["seed"], points, most, lost)
