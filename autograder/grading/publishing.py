"""Write a class's verdicts to nbgrader's gradebook and to feedback pages, without ever executing a notebook.

Each submission is read as data; nbgrader processes our clean copy of it and writes the page.
"""

import re
import secrets
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import nbformat
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import parse_utc
from sqlalchemy.engine import Connection
from traitlets.config import Config

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT, StudentStep, load_config
from autograder.grading import gradebook, people, roster
from autograder.grading.nbgrader_bridge import clean_copy
from autograder.grading.shared_gradebook import shared_gradebook
from autograder.reading import ingest
from autograder.reading.names import printable


@dataclass(frozen=True)
class Published:
    """The result for one student: the feedback page, or a sentence that says why there is none."""

    student: str
    page: Path | None
    problem: str = ""


def publish(
    week: str,
    students: list[str],
    course_root: Path = ROOT,
    submitted: Path | None = None,
    due: datetime | None = None,
) -> list[Published]:
    """Import the verdicts of these students into the gradebook and write their feedback pages.

    `due`, with its time zone, becomes the gradebook's due date; without it, the existing one is kept. A problem with
    one student never ends the batch. Only one process may publish at a time (the gradebook is SQLite).
    Raises ValueError when the week's own cells no longer match the gradebook.
    """
    enter(week, course_root, due)
    return publish_entered(week, students, course_root, submitted)


def enter(week: str, course_root: Path = ROOT, due: datetime | None = None) -> None:
    """Enter the week's cells, points and due date into the gradebook, as nbgrader's `generate_assignment` does.

    Call this before judging a class. Raises ValueError when the gradebook cannot be written, or when it contains grades
    for different cells.
    """
    root = Path(course_root).resolve()
    config, week = load_config(root), notebooks.find_week(week, root)
    url = config.CourseDirectory.db_url
    gradebook.prepare(week, notebooks.release(week, root), url)
    notebooks.generate(notebooks.read_source(week, root), week, config, url)
    if due is not None:
        gradebook.enter_due_date(week, due, url)


def publish_entered(
    week: str, students: list[str], course_root: Path = ROOT, submitted: Path | None = None
) -> list[Published]:
    """Publish after `enter` has run. Raises ValueError when the gradebook fails in the meantime."""
    root = Path(course_root).resolve()
    config, week = load_config(root), notebooks.find_week(week, root)
    folder = Path(submitted).resolve() if submitted else root / config.CourseDirectory.submitted_directory
    with tempfile.TemporaryDirectory() as clean, shared_gradebook(config.CourseDirectory.db_url) as connection:
        desk = _Desk(
            week, root, folder, Path(clean), config, roster.of_course(root), connection, *_steps(week, config, clean)
        )
        return [_publish_one(student, desk) for student in students]


@dataclass(frozen=True)
class _Desk:
    """Resources shared by all students of a week: folders, the open gradebook, and nbgrader's steps."""

    week: str
    root: Path
    submitted: Path
    clean: Path
    config: Config
    names: roster.Roster
    connection: Connection
    autograde: StudentStep
    feedback: StudentStep


def _steps(week: str, config: Config, clean: str) -> Iterator[StudentStep]:
    """Set up nbgrader's Autograde, which reads our clean copies, and its GenerateFeedback."""
    settings = deepcopy(config)
    settings.CourseDirectory.update(assignment_id=week, submitted_directory=clean)
    settings.Autograde.sanitize_preprocessors = ["nbgrader.preprocessors.OverwriteCells"]  # our copy is already clean
    for kind in (Autograde, GenerateFeedback):
        yield StudentStep(kind(coursedir=CourseDirectory(config=settings), config=settings, force=True), week)


def _publish_one(student: str, desk: _Desk) -> Published:
    week, names = desk.week, desk.config.CourseDirectory
    try:
        submission = ingest.read_submission(student, week, desk.submitted, desk.root)
        if not submission.found:
            return Published(student, None, submission.notes[0])
        _write_clean_copy(submission, desk.root, desk.submitted, desk.clean)
        with desk.connection.begin():
            desk.autograde.run(student)
            people.enter_name(names.db_url, desk.names.of(student), desk.submitted / student / week)
        with desk.connection.begin():
            desk.feedback.run(student)
    except Exception as error:  # whatever goes wrong here, the other students still get their pages
        if sentence := gradebook.trouble(names.db_url, error):
            raise ValueError(f"{week} was only partly published: {sentence}; nothing is judged twice") from error
        return Published(student, None, f"no feedback could be written: {printable(str(error))}")
    return Published(student, desk.root / names.feedback_directory / student / week / f"{week}.html")


def _write_clean_copy(submission: ingest.Submission, root: Path, submitted: Path, clean: Path) -> None:
    """Write what nbgrader may read to `clean`: our notebook with the answers, its submission time, and its secret.

    The secret names the feedback page in the exchange, so that only the student who submitted can find it. A submission
    that arrived another way gets a random secret that nobody knows, because nbgrader releases no page without one.
    """
    source, folder = submitted / submission.student / submission.week, clean / submission.student / submission.week
    folder.mkdir(parents=True)
    nbformat.write(clean_copy(submission, root), folder / f"{submission.week}.ipynb")
    for name, check in (("timestamp.txt", parse_utc), ("submission_secret.txt", _check_secret)):
        try:
            text = ingest.read_regular_file(source / name, submitted).decode().strip()
            check(text)
        except Exception:  # missing, a link, or malformed
            continue
        (folder / name).write_text(text)
    if not (folder / "submission_secret.txt").exists():
        (folder / "submission_secret.txt").write_text(secrets.token_hex(64))


def _check_secret(text: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{128}", text):
        raise ValueError("not a secret of nbgrader's submit")
