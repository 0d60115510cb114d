"""Write points as a CSV that Canvas's gradebook or a Moodle assignment can import.

Canvas: Grades > Import. Students are matched by `ID`; only the columns in the file change.
Moodle: Grading worksheet (the assignment's setting "Offline grading worksheet"). Rows are matched by `Identifier`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.lms.points import Score
from autograder.reading.names import cell, folder_name

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = ("Identifier", "Full name", "Grade", "Maximum Grade", "Last modified (grade)")
NEEDED = {"canvas": CANVAS, "moodle": ("Identifier", "Grade")}
IDENTITIES = ("ID", "SIS User ID", "SIS Login ID", "Identifier", "Email address", "Username", "ID number")
KEPT = (*IDENTITIES, "Feedback comments")  # copied verbatim: the LMS matches rows by the former; the latter are yours
POSSIBLE = "Points Possible"  # Canvas's second row, with leading spaces


@dataclass(frozen=True)
class Export:
    """A table that is ready to be written, and notes about it."""

    rows: list[list[str]]
    notes: list[str]


def export(
    lms: str, week: str, scores: Sequence[Score], template: Path | None = None, column: str = "", scale: bool = False
) -> Export:
    """Make the table for `lms` ("canvas" or "moodle").

    `template` is the LMS's own export; without it, only submissions collected from the LMS can be identified. `column`
    is Canvas's assignment; by default, the one whose name contains the week's. `scale` converts our points when the
    LMS's maximum differs. Raises ValueError for a student whom the LMS would not find.
    """
    if lms not in NEEDED:
        raise ValueError(f"there is no export for {lms!r}: use canvas or moodle")
    if template is None:
        return _without_template(lms, week, scores, column)
    header, rows = _read(template, NEEDED[lms])
    place = _column(header, week, column) if lms == "canvas" else header.index("Grade")
    rows = [row + [""] * (len(header) - len(row)) for row in rows]
    students = [row for row in rows if not _is_no_student(row, header, lms)]
    by_row = _match(header, students, scores)
    filled: set[str] = set()
    for number, score in by_row.items():
        row = students[number]
        most = _most(lms, header, rows, row, place)
        row[place] = _number(_scaled(score, most, scale))
        filled.add(score.student)
    notes = [f"{len(filled)} of {len(students)} students get points; the others are unchanged."]
    if lms == "moodle":
        return Export([header, *rows], notes)
    kept = [*(header.index(name) for name in CANVAS), place]
    if header[place] == week:
        notes.append(f"Canvas has no column for {week} yet and will offer to create one.")
    for row in rows:
        if _is_possible(row) and not row[place].strip():
            row[place] = _number(scores[0].max)
    return Export([[row[at] for at in kept] for row in [header, *rows]], notes)


def write(table: Export, path: Path) -> None:
    """Write the table in UTF-8, which both LMSs read; columns that identify a student are written verbatim."""
    header, *rows = table.rows
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row in rows:
            named = zip(header, row, strict=True)
            writer.writerow([text if name in KEPT else cell(text) for name, text in named])


def _read(template: Path, needed: Iterable[str]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows, padded to equal length. Raises ValueError when a column that the LMS needs is missing."""
    try:
        with template.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file) if any(row)]
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"{template} cannot be read as a CSV: {error}") from None
    missing = [name for name in needed if name not in header]
    if missing:
        raise ValueError(f"{template} has no column {', '.join(missing)}: export it again, with the LMS set to English")
    return header, [(row + [""] * len(header))[: len(header)] for row in rows]


def _column(header: list[str], week: str, wanted: str) -> int:
    """Return the column for the points in Canvas's table; a new column is added at the end."""
    short = re.compile(rf"\b({re.escape(week)}|{re.escape(week.split('_', maxsplit=1)[0])})\b", re.IGNORECASE)
    found = [at for at, name in enumerate(header) if (name == wanted if wanted else short.search(name))]
    if len(found) > 1:
        raise ValueError(f"{len(found)} columns are named after {week}: pass --column, such as {header[found[0]]!r}")
    if found:
        return found[0]
    if wanted:
        raise ValueError(f"no column is called {wanted!r}: use one of {', '.join(header[len(CANVAS) :]) or '(none)'}")
    header.append(week)
    return len(header) - 1


def _is_no_student(row: list[str], header: list[str], lms: str) -> bool:
    """Return whether a row of Canvas's table is not a student but one of the lines below the header."""
    return lms == "canvas" and (_is_possible(row) or not row[header.index("ID")].strip())


def _is_possible(row: list[str]) -> bool:
    return row[0].strip() == POSSIBLE


def _match(header: list[str], rows: list[list[str]], scores: Sequence[Score]) -> dict[int, Score]:
    """Return the score of each row. Raises ValueError that names every student with no row or more than one."""
    found: dict[int, Score] = {}
    problems = []
    for score in scores:
        places = _places(header, rows, score)
        if len(places) == 1 and places[0] not in found:
            found[places[0]] = score
        elif not places:
            problems.append(f"{score.student} has no row")
        else:
            problems.append(f"{score.student} matches more than one row, or the same row as another student")
    if problems:
        raise ValueError(f"nothing was written, because the LMS's table does not match: {'; '.join(problems)}")
    return found


def _places(header: list[str], rows: list[list[str]], score: Score) -> list[int]:
    """Return a student's rows: by the LMS's id; without one, by an identity equal to the folder's name, or by name."""
    identities = [header.index(name) for name in IDENTITIES if name in header]
    names = [header.index(name) for name in ("Student", "Full name") if name in header]
    if score.lms_id:
        own = {score.lms_id.lower(), f"participant {score.lms_id}".lower()}
        first = [header.index(name) for name in ("ID", "Identifier") if name in header]
        return [number for number, row in enumerate(rows) if any(row[at].lower() in own for at in first)]
    own = {name.lower() for name in (score.student, *score.also)}
    by_identity = [number for number, row in enumerate(rows) if any(row[at].lower() in own for at in identities)]
    own = {folder_name(name).lower() for name in (score.student, *score.also)}
    return by_identity or [
        number for number, row in enumerate(rows) if any(folder_name(row[at]).lower() in own for at in names)
    ]


def _most(lms: str, header: list[str], rows: list[list[str]], row: list[str], place: int) -> float | None:
    """Return the LMS's maximum points, if the table has them."""
    if lms == "moodle":
        text = row[header.index("Maximum Grade")] if "Maximum Grade" in header else ""
    else:
        text = next((line[place] for line in rows if _is_possible(line)), "")
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


def _scaled(score: Score, most: float | None, scale: bool) -> float:
    if most is None or most == score.max:
        return score.points
    if not scale:
        raise ValueError(
            f"the LMS gives at most {most:g} points and the course {score.max:g}: set {score.max:g} there, or pass "
            "--scale to convert"
        )
    return score.points / score.max * most


def _number(points: float) -> str:
    return f"{round(points, 2):g}"


def _without_template(lms: str, week: str, scores: Sequence[Score], column: str) -> Export:
    """Build a table from the collected files alone. Raises ValueError for students who submitted another way."""
    strangers = [score.student for score in scores if not score.lms_id]
    if strangers:
        raise ValueError(
            f"the LMS's number is not known for {', '.join(strangers)}: pass --template with the table exported from "
            "the LMS"
        )
    if lms == "canvas":
        top = [[*CANVAS, column or week], [f"    {POSSIBLE}", "", "", "", "", _number(scores[0].max)]]
        rows = [[score.student, score.lms_id, "", "", "", _number(score.points)] for score in scores]
        return Export([*top, *rows], ["Made without --template: Canvas matches students by ID."])
    rows = [
        [f"Participant {score.lms_id}", score.student, _number(score.points), _number(score.max), "-"]
        for score in scores
    ]
    note = "Made without --template: Moodle skips students who already have a grade; pass its worksheet for them."
    return Export([list(MOODLE), *rows], [note])
