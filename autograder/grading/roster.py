"""A table of the class, with the name that each system uses for a student.

autograder/students.csv has one line per student. `student` is the name of the folder with their submissions; all other
columns are optional:

name         the full name, shown in the gradebook and used to find the student in Moodle
exchange     the Linux account, if it is not `student`
canvas       the user's number in Canvas
moodle       the full name in Moodle, if it is not `name`
email        if the LMS's table identifies students by it
git          the login at the git server
repository, branch      where their work is, for `autograder collect`
section      a part of the class, for `--section`

GitHub Classroom's table and that of `nbgrader db student import` can be read too.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.reading.names import folder_name, printable

COLUMNS = {
    "student": ("student", "id", "roster_identifier", "github_username"),
    "name": ("name",),
    "exchange": ("exchange",),
    "canvas": ("canvas", "lms_user_id"),
    "moodle": ("moodle", "name"),
    "email": ("email",),
    "git": ("git", "github_username"),
    "repository": ("repository", "student_repository_url"),
    "branch": ("branch",),
    "section": ("section",),
}


@dataclass(frozen=True)
class Student:
    """One line of the table; missing values are empty strings."""

    student: str
    name: str = ""
    exchange: str = ""
    canvas: str = ""
    moodle: str = ""
    email: str = ""
    git: str = ""
    repository: str = ""
    branch: str = ""
    section: str = ""


@dataclass(frozen=True)
class Roster:
    """The students of a table in file order, and sentences about lines without a student name."""

    students: tuple[Student, ...] = ()
    problems: tuple[str, ...] = ()

    def of(self, student: str) -> Student:
        """Return the line of a student, or an empty one."""
        return next((one for one in self.students if one.student == student), Student(student))

    def student_of(self, system: str, key: str) -> str:
        """Return the student whom `system` ("exchange", "canvas", "moodle", "git") calls `key`; "" unless just one."""
        found = [one.student for one in self.students if _same(system, getattr(one, system), key)]
        return found[0] if len(found) == 1 else ""

    def in_section(self, section: str) -> list[str]:
        """Return the students of a section. Raises ValueError that lists the sections if nobody is in this one."""
        found = [one.student for one in self.students if one.section == section]
        if not found:
            known = sorted({one.section for one in self.students if one.section})
            raise ValueError(f"nobody is in section {section!r}: students.csv has {', '.join(known) or 'no section'}")
        return found


def _same(system: str, value: str, key: str) -> bool:
    if system == "exchange" or not value or not key:
        return bool(key) and value == key  # Linux accounts are case-sensitive
    return value == key or folder_name(value).lower() == folder_name(key).lower()


def path_of(root: Path) -> Path:
    """Return where a course stores its table."""
    return Path(root) / "autograder" / "students.csv"


def of_course(root: Path) -> Roster:
    """Return the table of a course, or an empty one. Raises ValueError when a line cannot be used."""
    path = path_of(root)
    if not path.exists():
        return Roster()
    found = read(path)
    problems = [*found.problems, *_used_twice(found.students)]
    if problems:
        raise ValueError(f"{path}: {' '.join(problems)}")
    return found


def _used_twice(students: Sequence[Student]) -> list[str]:
    sentences = []
    for column in ("student", "exchange", "canvas", "git"):
        counts = Counter(value.lower() for one in students if (value := getattr(one, column)))
        sentences += [f"Column {column} has {printable(value)} {n} times." for value, n in counts.items() if n > 1]
    return sentences


def read(path: Path) -> Roster:
    """Read a table of students. Raises ValueError when the file is not one."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header, rows = list(reader.fieldnames or []), list(reader)
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from None
    if not set(header) & set(COLUMNS["student"]):
        has = ", ".join(map(printable, header)) or "none"
        raise ValueError(f"{path} needs the columns student and, for git, repository (docs/lms.md); it has {has}")
    students, problems = [], []
    for number, row in enumerate(rows, start=2):
        values = {name: _first(row, columns) for name, columns in COLUMNS.items()}
        if not values["student"]:
            problems.append(f"Line {number} has no student name.")
            continue
        values["name"] = values["name"] or _full_name(row) or values["student"]
        students.append(Student(**values | {"student": folder_name(values["student"])}))
    return Roster(tuple(students), tuple(problems))


def _first(row: dict[str, str | None], columns: Sequence[str]) -> str:
    return next((text.strip() for column in columns if (text := row.get(column)) and text.strip()), "")


def _full_name(row: dict[str, str | None]) -> str:
    return " ".join(filter(None, (_first(row, (part,)) for part in ("first_name", "last_name"))))
