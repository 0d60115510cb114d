"""Names of students in the gradebook, as shown by formgrader. An existing name is never changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook

from autograder.grading.roster import Student
from autograder.reading.ingest import read_collected


def enter_name(db_url: str, student: Student, folder: Path) -> None:
    """Set a student's name in the gradebook from students.csv, or else from the Moodle download in STUDENT/WEEK."""
    with Gradebook(db_url) as gradebook:
        entry: Any = gradebook.find_student(student.student)
        if (entry.first_name, entry.last_name) == (None, None):
            entry.first_name, entry.last_name = name_of(student, folder)
            gradebook.db.commit()


def name_of(student: Student, folder: Path) -> tuple[str, str]:
    """Return first and last name. Canvas joins them in its file names, so only Moodle's can be split."""
    collected = read_collected(folder)
    from_moodle = collected["name"] if collected is not None and collected["lms"] == "moodle" else ""
    name = student.name if student.name not in ("", student.student) else from_moodle
    if not name.strip():
        return "", student.student
    *first, last = name.split()
    return " ".join(first), last
