"""Names of students in the gradebook, which formgrader shows; whoever is entered there already keeps theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook

from autograder.lms.placing import read_collected


def enter_name(db_url: str, student: str, folder: Path) -> None:
    """Give a student of the gradebook the name that the LMS gave in STUDENT/WEEK, or else the folder's."""
    with Gradebook(db_url) as gradebook:
        entry: Any = gradebook.find_student(student)
        if (entry.first_name, entry.last_name) == (None, None):
            entry.first_name, entry.last_name = name_of(student, folder)
            gradebook.db.commit()


def name_of(student: str, folder: Path) -> tuple[str, str]:
    """First and last name. Canvas's file names run them together, so that only Moodle's can be told apart."""
    collected = read_collected(folder)
    if collected is None or collected["lms"] != "moodle" or not collected["name"].strip():
        return "", student
    *first, last = collected["name"].split()
    return " ".join(first), last
