"""Hints by level, and the course's solution after an honest attempt."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from shardlab.study import page, records
from shardlab.study.folder import Folder
from shardlab.study.page import Exercise
from shardlab.study.progress import HONEST, Standing, standings
from shardlab.study.update import answer_cell

MEASURE_SECONDS = 120
PROGRAM = ["-m", "autograder.cli", "measure"]  # run as a program, because the package must not import its grader


@dataclass(frozen=True)
class Hints:
    """The hints opened so far, newest last, and how many there are; `is_new` if one was opened just now."""

    exercise: str
    opened: list[str]
    count: int
    is_new: bool
    trouble: str = ""  # why it was not recorded


@dataclass(frozen=True)
class Case:
    """One visible case: bytes that each rank sent and held, with the learner's answer and with the course's."""

    name: str
    mine: dict[str, Any]
    course: dict[str, Any]


@dataclass(frozen=True)
class Solution:
    """Two answers side by side; `cases` compares what they send and hold, or `why_not` says why that is missing."""

    exercise: str
    mine: str
    course: str
    cases: list[Case]
    why_not: str = ""
    trouble: str = ""  # why it was not recorded


def standing_of(folder: Folder, exercise: Exercise) -> Standing:
    """The learner's progress on one exercise; raises ValueError if a teacher grades it (no check, no hints)."""
    if exercise.is_written:
        raise ValueError(f"{exercise.name} is a written answer without check or hints; `solution` shows a model answer")
    return standings({exercise.name: exercise}, records.read(folder.records)[0])[exercise.name]


def next_hint(folder: Folder, name: str) -> Hints:
    """Open the next hint of an exercise and record it; raises ValueError if the course has no hints for it."""
    exercise = folder.exercise(name)
    seen = len(standing_of(folder, exercise).hints)
    texts = _texts(folder).get(exercise.name, [])
    if not texts:
        raise ValueError(f"this course has no hints for {exercise.name}; its page may have folded ones")
    level = min(seen + 1, len(texts))
    is_new = level > seen
    trouble = records.note("hint", path=folder.path, exercise=exercise.name, hint=level) if is_new else ""
    return Hints(exercise.name, texts[:level], len(texts), is_new, trouble)


def next_unseen(folder: Folder, name: str, shown: Collection[int]) -> Hints:
    """Like `next_hint`, but also opens the hints whose numbers are in `shown`, because the learner has read them."""
    found = next_hint(folder, name)
    while found.is_new and len(found.opened) in shown and len(found.opened) < found.count:
        found = next_hint(folder, name)
    return found


def _texts(folder: Folder) -> dict[str, list[str]]:
    path = folder.course / "hints.json"
    if not path.exists():
        return {}
    try:
        texts = json.loads(path.read_text(encoding="utf-8"))
        return {name: [str(text) for text in found] for name, found in texts.items()}
    except page.BROKEN as error:
        raise ValueError(f"{path} is broken ({page.reason(error)}): `git restore {path}` brings it back") from None


def solution(folder: Folder, name: str, *, measured: bool = True) -> Solution:
    """The course's solution next to the learner's answer, after an honest attempt.

    measured: whether to run the solution on the visible cases, to compare what both send and hold. Raises ValueError
    before the attempt, or if the course came without its solutions.
    """
    exercise = folder.exercise(name)
    week = folder.week(exercise.week)
    mine = answer_cell(page.read(folder.notebook(week)), exercise.name).source
    blank = answer_cell(page.read(page.page_path(folder.course, week)), exercise.name).source
    _refuse_without_attempt(folder, exercise, mine, blank)
    course = _course_answer(folder, week, exercise.name)
    trouble = records.note("solution", path=folder.path, exercise=exercise.name)
    cases, why_not = _compared(folder, exercise) if measured else ([], "the solution was not run")
    return Solution(exercise.name, mine, course, cases, why_not, trouble)


def _refuse_without_attempt(folder: Folder, exercise: Exercise, mine: str, blank: str) -> None:
    if exercise.is_written:
        if mine.strip() == blank.strip():
            raise ValueError(
                f"{exercise.name} is still blank: write your answer first, then compare it with the course's"
            )
        return
    standing = standing_of(folder, exercise)
    if not standing.was_attempted:
        raise ValueError(
            f"{exercise.name}: different answers checked so far: {len(standing.answers)}. The solution opens after "
            f"{HONEST}, or once you have all points; until then, try `shardlab study hint {exercise.name}`"
        )


def _course_answer(folder: Folder, week: str, exercise: str) -> str:
    """The solution cell in the week's source, without the marker lines."""
    import jupytext

    path = folder.course.parent / "solutions" / week / f"{week}.py"
    if not path.is_file():
        raise ValueError(f"this copy of the course came without its solutions: there is no {path}")
    cells = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent").cells
    found = [cell.source for cell in cells if exercise in (cell.metadata.get("exercise"), cell.metadata.get("manual"))]
    if not found:
        raise ValueError(f"{path} has no solution for {exercise}")
    return "\n".join(line for line in found[0].split("\n") if not line.strip().startswith(("### BEGIN", "### END")))


def _compared(folder: Folder, exercise: Exercise) -> tuple[list[Case], str]:
    """For each case, what the last recorded answer and the solution send and hold; or why that is unknown."""
    if exercise.is_written:
        return [], "a written answer sends nothing"
    rows = records.read(folder.records)[0]
    checks = [row for row in rows if row["event"] == "check" and row["exercise"] == exercise.name]
    mine = {_key(one): one for row in checks[-1:] for one in row.get("measured") or []}
    if not mine:
        return [], "your last check measured nothing: it uses no ranks, or failed before it sent anything"
    program = [sys.executable, *PROGRAM, exercise.name]
    try:
        ended = subprocess.run(program, capture_output=True, text=True, timeout=MEASURE_SECONDS, check=True)
        course = {_key(one): one for one in json.loads(ended.stdout)}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines() or [type(error).__name__]
        return [], f"the solution could not be run on this machine: {said[-1]}"
    both = [key for key in mine if key in course]
    if not both:
        return [], "your last check ran on different cases from those on the page"
    return [Case(_called(mine[key]["case"]), mine[key], course[key]) for key in both], ""


def _key(measured: dict[str, Any]) -> str:
    return json.dumps(measured["case"], sort_keys=True)


def _called(case: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in case.items())
