"""Bring our verdicts into nbgrader's gradebook and feedback, without ever executing a notebook.

`publish` reads each submission as data, lets nbgrader file our clean copy of it, and writes the feedback page.
nbgrader_config.py names the three preprocessors, so that the buttons of the formgrader do the same.
"""

import glob
import json
import math
import re
import tempfile
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution, parse_utc
from traitlets import Unicode
from traitlets.config import Config

from autograder import exhibits, ingest, notebooks, roster
from autograder.course import ROOT, load_config, run_step
from autograder.judge import clean
from autograder.names import printable
from autograder.told import told

MOST_SHOWN = 30_000  # characters of a cell that a feedback page shows
NO_VERDICT = "Not graded: there is no verdict for this exercise, which counts as 0 until it is graded."


@dataclass(frozen=True)
class Published:
    """What became of one student: the feedback page, or the sentence that says why there is none."""

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

    `due`, with its zone, becomes the gradebook's due date; without it the one that stands there stays. One student's
    problem never ends the batch. Only one process may publish at a time (the gradebook is SQLite).
    Raises ValueError when the week's own cells no longer fit the gradebook.
    """
    enter(week, course_root, due)
    return publish_entered(week, students, course_root, submitted)


def enter(week: str, course_root: Path = ROOT, due: datetime | None = None) -> None:
    """Enter the week's cells, points and due date into the gradebook, as nbgrader's `generate_assignment` does.

    Raises ValueError when they no longer fit what stands there.
    """
    root = Path(course_root).resolve()
    config, week = load_config(root), notebooks.find_week(week, root)
    notebooks.generate(notebooks.read_source(week, root), week, config, config.CourseDirectory.db_url)
    if due is not None:
        changed: Any = {"duedate": due}
        with Gradebook(config.CourseDirectory.db_url) as gradebook:
            gradebook.update_or_create_assignment(week, **changed)


def publish_entered(
    week: str, students: list[str], course_root: Path = ROOT, submitted: Path | None = None
) -> list[Published]:
    """As `publish`, for a week that has been entered."""
    root = Path(course_root).resolve()
    config, week = load_config(root), notebooks.find_week(week, root)
    folder = Path(submitted).resolve() if submitted else root / config.CourseDirectory.submitted_directory
    with tempfile.TemporaryDirectory() as clean:
        return [_publish_one(student, week, root, config, folder, Path(clean)) for student in students]


def _publish_one(student: str, week: str, root: Path, config: Config, submitted: Path, clean: Path) -> Published:
    try:
        submission = ingest.read_submission(student, week, submitted, root)
        if not submission.found:
            return Published(student, None, submission.notes[0])
        _write_clean_copy(submission, root, submitted, clean)
        settings = deepcopy(config)
        settings.CourseDirectory.update(
            assignment_id=week, student_id=glob.escape(student), submitted_directory=str(clean)
        )
        settings.Autograde.sanitize_preprocessors = ["nbgrader.preprocessors.OverwriteCells"]  # it is clean already
        run_step(Autograde(coursedir=CourseDirectory(config=settings), config=settings, force=True), week)
        roster.enter_name(config.CourseDirectory.db_url, student, submitted / student / week)
        run_step(GenerateFeedback(coursedir=CourseDirectory(config=settings), config=settings, force=True), week)
    except Exception as error:  # whatever nbgrader trips over, the other students get their pages
        return Published(student, None, f"no feedback could be written: {printable(str(error))}")
    return Published(student, root / config.CourseDirectory.feedback_directory / student / week / f"{week}.html")


def _write_clean_copy(submission: ingest.Submission, root: Path, submitted: Path, clean: Path) -> None:
    """Put what nbgrader may read into `clean`: our notebook with the answers, when it was handed in, and its secret.

    The secret names the feedback page in the exchange, where only the student who handed in can find it.
    """
    source, folder = submitted / submission.student / submission.week, clean / submission.student / submission.week
    folder.mkdir(parents=True)
    nbformat.write(ingest.restore(submission, root), folder / f"{submission.week}.ipynb")
    for name, check in (("timestamp.txt", parse_utc), ("submission_secret.txt", _check_secret)):
        try:
            text = ingest.read_regular_file(source / name, submitted).decode().strip()
            check(text)
        except Exception:  # none, a link, or not what it says: nbgrader then knows no time, or releases no feedback
            continue
        (folder / name).write_text(text)


def _check_secret(text: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{128}", text):
        raise ValueError("not a secret of nbgrader's submit")


class RestoreNotebook(NbGraderPreprocessor):
    """Replace a submitted notebook by our own copy with the student's answers in it (for the formgrader's button)."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        names, root = resources["nbgrader"], Path.cwd()  # nbgrader works in the course's root
        cells = ingest.parse(nbformat.writes(nb).encode("utf-8", "replace"))
        submission = ingest.take_cells(cells, names["student"], names["assignment"], root)
        return ingest.restore(submission, root), resources


class ImportVerdict(NbGraderPreprocessor):
    """Write each verdict into the output of its check, where nbgrader looks for points; nothing is executed.

    A code cell that the instructor grades gets what it showed in the sandbox.
    """

    verdicts_directory = Unicode("autograder/verdicts", help="where `autograder grade` writes verdicts").tag(
        config=True
    )

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        names = resources["nbgrader"]
        path = Path(self.verdicts_directory, names["student"], f"{names['assignment']}.json")
        verdicts, shown = read_verdicts(path), exhibits.read(exhibits.file_of(path))
        for cell in nb.cells:
            if cell.cell_type != "code":
                continue
            cell.outputs, cell.execution_count = [], None
            if is_grade(cell) and is_solution(cell):
                own = shown.get(notebooks.exercise_id(cell.metadata.nbgrader.grade_id))
                cell.outputs = list(exhibits.outputs(own, cell.source))
            elif is_grade(cell):
                marks = cell.metadata.nbgrader
                points, text = verdict_of(verdicts, notebooks.exercise_id(marks.grade_id), float(marks.points))
                cell.outputs = [
                    new_output("stream", name="stdout", text=text),
                    new_output("execute_result", data={"text/plain": repr(points)}, execution_count=None),
                ]
        return nb, resources


def read_verdicts(path: Path) -> dict:
    """Read the verdicts of one submission by exercise id; a missing or broken file holds none."""
    try:
        exercises = json.loads(path.read_text(encoding="utf-8"))["exercises"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return exercises if isinstance(exercises, dict) else {}


def verdict_of(verdicts: dict, exercise: str, max_points: float) -> tuple[float, str]:
    """Return the points of an exercise, kept between 0 and `max_points`, and the sentence for the student."""
    verdict = verdicts.get(exercise)
    if not isinstance(verdict, dict):
        return 0.0, NO_VERDICT
    points = verdict.get("points")
    if not isinstance(points, int | float) or not math.isfinite(points):
        return 0.0, NO_VERDICT
    return max(0.0, min(max_points, float(points))), str(verdict.get("text") or "")


class FeedbackTable(NbGraderPreprocessor):
    """Collect what each graded cell got and what was said about it, for the feedback page.

    `rows` stand in its table, `row_of` finds the one of an answer's cell, or of its check's.
    """

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        names = resources["nbgrader"]
        graded = [cell for cell in nb.cells if is_grade(cell)]
        with Gradebook(names["db_url"]) as gradebook:
            names["rows"] = [_feedback_row(cell, gradebook, names) for cell in graded]
        names["title"] = _title(nb) or names["assignment"]
        names["row_of"] = {row["answer"]: row for row in names["rows"]} | {row["cell"]: row for row in names["rows"]}
        names["num_right"] = sum(row["state"] == "right" for row in names["rows"])
        names["num_waiting"] = sum(row["state"] == "waits" for row in names["rows"])
        names["notes"] = list(nb.metadata.get("notes", []))
        for cell in nb.cells:  # colouring megabytes takes minutes
            cell.source = clean(cell.source.expandtabs(), MOST_SHOWN)
        return nb, resources


def _feedback_row(cell: NotebookNode, gradebook: Gradebook, names: dict) -> dict:
    """Say what one graded cell got; a written answer without a score waits for the instructor."""
    marks = cell.metadata.nbgrader
    grade = gradebook.find_grade(marks.grade_id, names["notebook"], names["assignment"], names["student"])
    waits = is_solution(cell) and grade.auto_score is None and grade.manual_score is None
    if waits:
        text = "waits for the instructor"
    elif not is_solution(cell):
        text = next((output.text for output in cell.outputs if output.output_type == "stream"), "")
    elif grade.manual_score is None:
        text = "no answer was written"
    else:
        text = marks.get("comment") or "graded by the instructor"
    return {
        "cell": cell.id,
        "answer": marks.grade_id.removesuffix("-check")[:64],
        "exercise": notebooks.exercise_id(marks.grade_id).split(".", 1)[-1],
        "points": "–" if waits else f"{marks.score:g}",
        "max": f"{marks.points:g}",
        "state": "waits" if waits else _state(marks.score, marks.points),
        "told": told(text),
    }


def _state(score: float, most: float) -> str:
    return "right" if score >= most else "partly" if score > 0 else "wrong"


def _title(notebook: NotebookNode) -> str:
    """The first heading of a notebook."""
    lines = (line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.split("\n"))
    return next((line.removeprefix("# ").strip() for line in lines if line.startswith("# ")), "")
