"""Names of students in the gradebook, which formgrader shows; a student who has one there keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook

from autograder.lms.placing import read_collected
from autograder.roster import Student


def enter_name(db_url: str, student: Student, folder: Path) -> None:
    """Give a student of the gradebook the name of the class's table, or the one that Moodle gave in STUDENT/WEEK."""
    with Gradebook(db_url) as gradebook:
        entry: Any = gradebook.find_student(student.student)
        if (entry.first_name, entry.last_name) == (None, None):
            entry.first_name, entry.last_name = name_of(student, folder)
            gradebook.db.commit()


def name_of(student: Student, folder: Path) -> tuple[str, str]:
    """First and last name. Canvas's file names run them together, so that only Moodle's can be told apart."""
    collected = read_collected(folder)
    from_moodle = collected["name"] if collected is not None and collected["lms"] == "moodle" else ""
    name = student.name if student.name not in ("", student.student) else from_moodle
    if not name.strip():
        return "", student.student
    *first, last = name.split()
    return " ".join(first), last
