"""Our preprocessors for nbgrader: they turn verdicts into points and feedback, and never execute a notebook.

nbgrader_config.py lists the three preprocessors; `publishing` and the formgrader's buttons run the same steps.
"""

import math
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution

from autograder.authoring import notebooks
from autograder.grading import verdict_files
from autograder.judging import exhibits
from autograder.judging.judge import clean
from autograder.judging.told import told
from autograder.reading import ingest
from autograder.reading.dossier import dossier_of

MOST_SHOWN = 30_000  # characters per cell on a feedback page
CREDIT = "extra_credit"  # metadata of an optional check, between two of these steps
NO_VERDICT = "Not graded: this exercise has no verdict. It counts as 0 until `autograder grade` is run."


class RestoreNotebook(NbGraderPreprocessor):
    """Replace a submitted notebook with our own copy that has the student's answers (for the formgrader's button)."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        names, root = resources["nbgrader"], Path.cwd()  # nbgrader runs in the course's root
        cells = ingest.parse(nbformat.writes(nb).encode("utf-8", "replace"))
        submission = ingest.take_cells(cells, names["student"], names["assignment"], root)
        return clean_copy(submission, root), resources


def clean_copy(submission: ingest.Submission, root: Path) -> NotebookNode:
    """Return our notebook with the student's answers, and their digest: only verdicts on these answers give points."""
    notebook = ingest.restore(submission, root)
    notebook.metadata["digest"] = dossier_of(submission, root).digest
    return notebook


class ImportVerdict(NbGraderPreprocessor):
    """Write each verdict into the output of its check, where nbgrader looks for points; nothing is executed.

    A code cell that the instructor grades gets the output it had in the sandbox. A verdict on different answers than
    those in this notebook gives no points, and a sentence says so. nbgrader counts no points for an optional check;
    they become extra credit.
    """

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        student, week, root = resources["nbgrader"]["student"], resources["nbgrader"]["assignment"], Path.cwd()
        found = verdict_files.standing(student, week, str(nb.metadata.get("digest", "")), root)
        path = exhibits.file_of(verdict_files.verdict_file(student, week, root))
        shown = {} if found.reason else exhibits.read(path)
        for cell in nb.cells:
            if cell.cell_type != "code":
                continue
            cell.outputs, cell.execution_count = [], None
            if is_grade(cell) and is_solution(cell):
                own = shown.get(notebooks.exercise_id(cell.metadata.nbgrader.grade_id))
                cell.outputs = list(exhibits.outputs(own, cell.source))
            elif is_grade(cell):
                exercise = notebooks.exercise_id(cell.metadata.nbgrader.grade_id)
                points, text = verdict_of(found, exercise, notebooks.points_of(cell), week)
                if notebooks.is_optional(cell):
                    cell.metadata[CREDIT], points = points, 0.0
                cell.outputs = [
                    new_output("stream", name="stdout", text=text),
                    new_output("execute_result", data={"text/plain": repr(points)}, execution_count=None),
                ]
        return nb, resources


class SaveExtraCredit(NbGraderPreprocessor):
    """Write the points of optional checks to the gradebook as extra credit."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        names = resources["nbgrader"]
        with Gradebook(names["db_url"]) as gradebook:
            for cell in [cell for cell in nb.cells if CREDIT in cell.metadata]:
                place = cell.metadata.nbgrader.grade_id, names["notebook"], names["assignment"], names["student"]
                gradebook.find_grade(*place).extra_credit = cell.metadata.pop(CREDIT)
            gradebook.db.commit()
        return nb, resources


def verdict_of(found: verdict_files.Standing, exercise: str, max_points: float, week: str) -> tuple[float, str]:
    """Return the points of an exercise, kept between 0 and `max_points`, and the sentence for the student."""
    if found.reason:
        counts = f"It counts as 0 until the instructor runs `autograder grade {week}`."
        return 0.0, f"Not graded: {found.reason}. {counts}"
    verdict = found.exercises.get(exercise)
    if not isinstance(verdict, dict):
        return 0.0, NO_VERDICT
    points = verdict.get("points")
    if not isinstance(points, int | float) or not math.isfinite(points):
        return 0.0, NO_VERDICT
    return max(0.0, min(max_points, float(points))), str(verdict.get("text") or "")


class FeedbackTable(NbGraderPreprocessor):
    """Collect points and comments of each graded cell for the feedback page.

    `rows` are the rows of its table; `row_of` maps the cell id of an answer, or of its check, to the row.
    """

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        names = resources["nbgrader"]
        graded = [cell for cell in nb.cells if is_grade(cell)]
        with Gradebook(names["db_url"]) as gradebook:
            names["rows"] = [_feedback_row(cell, gradebook, names) for cell in graded]
        names["title"] = _title(nb) or names["assignment"]
        names["row_of"] = {row["answer"]: row for row in names["rows"]} | {row["cell"]: row for row in names["rows"]}
        names["num_right"] = sum(row["state"] == "right" for row in names["rows"])
        names["extra"] = sum(row["extra"] for row in names["rows"])
        names["num_waiting"] = sum(row["state"] == "waits" for row in names["rows"])
        names["notes"] = list(nb.metadata.get("notes", []))
        for cell in nb.cells:  # highlighting megabytes takes minutes
            cell.source = clean(cell.source.expandtabs(), MOST_SHOWN)
        return nb, resources


def _feedback_row(cell: NotebookNode, gradebook: Gradebook, names: dict) -> dict:
    """Describe the result of one graded cell; a written answer without a score is waiting for the instructor."""
    marks = cell.metadata.nbgrader
    grade = gradebook.find_grade(marks.grade_id, names["notebook"], names["assignment"], names["student"])
    most = notebooks.points_of(cell)
    waits = is_solution(cell) and grade.auto_score is None and grade.manual_score is None
    if waits:
        text = "waiting for the instructor"
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
        "max": f"{most:g}" + (", optional" if notebooks.is_optional(cell) else ""),
        "extra": float(marks.score) if notebooks.is_optional(cell) and not waits else 0.0,
        "state": "waits" if waits else _state(marks.score, most),
        "told": told(text),
    }


def _state(score: float, most: float) -> str:
    return "right" if score >= most else "partly" if score > 0 else "wrong"


def _title(notebook: NotebookNode) -> str:
    """Return the first heading of a notebook."""
    lines = (line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.split("\n"))
    return next((line.removeprefix("# ").strip() for line in lines if line.startswith("# ")), "")
