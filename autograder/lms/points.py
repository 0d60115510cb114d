"""Read the points of a week from nbgrader's gradebook, or from the verdicts for students who are not in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbgrader.api import MissingEntry

from autograder.grading import grade, gradebook, roster
from autograder.grading.roster import Student
from autograder.grading.verdict_files import total
from autograder.reading.ingest import read_collected


@dataclass(frozen=True)
class Score:
    """A student's points for a week.

    `lms_id` is the LMS's number, from the class table or the collected file, or empty; `also` lists other names that
    the LMS's table may use for the student.
    """

    student: str
    points: float
    max: float
    lms_id: str = ""
    also: tuple[str, ...] = ()


def scores(week: str, lms: str, submitted: Path, root: Path) -> tuple[list[Score], list[str]]:
    """Return the scores of a week, sorted by student, with their numbers in `lms`, and notes about their sources.

    The gradebook's points include manual grades, minus late penalties. Raises ValueError when nobody has points.
    """
    verdicts = _verdicts(week, root)
    book, waiting = _gradebook(week, root)
    faulty = {name for name, one in verdicts.items() if any(e.get("fault") for e in one["exercises"].values())}
    changed = sorted((set(grade.stale(week, submitted, root)) & (set(book) | set(verdicts))) - faulty)
    absent = {name for name, one in verdicts.items() if not one.get("submitted", True)} - set(book)
    only_judged = sorted(set(verdicts) - set(book) - faulty - absent - set(changed))
    found = {name: pair for name, pair in book.items() if name not in faulty and name not in changed}
    most = next(iter(book.values()))[1] if book else 0.0  # including written answers, which verdicts omit
    for name in only_judged:
        points, of = total(verdicts[name])
        found[name] = (points, most or of)
    notes = []
    if only_judged:
        notes.append(
            f"Not in the gradebook, so without written answers and late penalties: {', '.join(only_judged)}. "
            "`autograder grade` fills the gradebook."
        )
    if waiting:
        notes.append(f"Written answers without a grade count as 0: {', '.join(sorted(waiting - faulty))}.")
    if faulty:
        notes.append(f"Left out, because the machine failed while grading; grade again: {', '.join(sorted(faulty))}.")
    if changed:
        names = ", ".join(changed)
        notes.append(f"Left out, because their submission has no valid verdict; run `autograder grade`: {names}.")
    if absent:
        notes.append(f"Left out, because nothing was submitted: {', '.join(sorted(absent))}.")
    if not found:
        raise ValueError(
            f"nobody has points for {week}: run `autograder grade {week}` first. {' '.join(notes)}".strip()
        )
    class_table = roster.of_course(root)
    return [_score(class_table.of(name), found[name], submitted / name / week, lms) for name in sorted(found)], notes


def due_date(week: str, root: Path) -> datetime | None:
    """Return the gradebook's due date of a week, in UTC."""
    if not gradebook.exists(root):
        return None
    with gradebook.opened(gradebook.url_of(root)) as book:
        try:
            due: Any = book.find_assignment(week).duedate
        except MissingEntry:
            return None
    return due.replace(tzinfo=UTC) if due else None


def _gradebook(week: str, root: Path) -> tuple[dict[str, tuple[float, float]], set[str]]:
    """Return {student: (points, maximum)} from nbgrader, and the students whose written answers have no grade yet."""
    found: dict[str, tuple[float, float]] = {}
    waiting: set[str] = set()
    if not gradebook.exists(root):
        return found, waiting
    with gradebook.opened(gradebook.url_of(root)) as book:
        try:
            assignment = book.find_assignment(week)
        except MissingEntry:
            return found, waiting
        most: Any = assignment.max_score
        for one in assignment.submissions:
            points = max(0.0, float(one.score) - float(one.late_submission_penalty or 0))
            found[one.student.id] = (round(points, 4), float(most))
            if one.needs_manual_grade:
                waiting.add(one.student.id)
    return found, waiting


def _verdicts(week: str, root: Path) -> dict[str, dict[str, Any]]:
    """Return the verdicts of a week by student; skip files that cannot be read."""
    found = {}
    for path in sorted((Path(root) / "autograder" / "verdicts").glob(f"*/{week}.json")):
        try:
            verdicts = json.loads(path.read_text(encoding="utf-8"))
            total(verdicts)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        found[path.parent.name] = verdicts
    return found


def _score(person: Student, points: tuple[float, float], folder: Path, lms: str) -> Score:
    lms_id = person.canvas if lms == "canvas" and person.canvas else _lms_id(folder, lms)
    names = (person.moodle if lms == "moodle" else "", person.email, person.name)
    return Score(person.student, *points, lms_id, tuple(filter(None, names)))


def _lms_id(folder: Path, lms: str) -> str:
    collected = read_collected(folder)
    return collected["id"] if collected and collected["lms"] == lms else ""
