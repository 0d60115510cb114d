"""Turn a week's percent source into the notebook that students get.

solutions/week01_x/week01_x.py --jupytext--> notebook with solutions --nbgrader--> course/week01_x/week01_x.ipynb

A source marks its cells `exercise="week01.name"`, `check="week01.name" points=3` and, in markdown,
`manual="week01.name" points=2`. A check with `optional=true` gives extra credit: nbgrader counts 0 points for its cell,
whose metadata has the rest. The same source always gives the same bytes.
"""

import tempfile
import threading
from collections import Counter
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearSolutions
from nbgrader.utils import compute_checksum, is_solution
from shardlab.meant import instead
from shardlab.study.page import EXTRA, content_id, exercise_id, is_optional, pages_in, points_of  # noqa: F401 - re-exported
from traitlets.config import Config

from autograder.authoring.course import ROOT, load_config, pages, run_step

NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}
ONE_AT_A_TIME = threading.Lock()  # nbgrader changes PATH and logging for the whole process
MARKS = ("exercise", "check", "manual", "points", "optional")


def weeks(root: Path = ROOT) -> list[str]:
    """List the pages that have a source, by name: ["prerequisites", "week00_start", "week01_collectives", ...].

    In a course released without solutions/, these are the weeks that have a notebook.
    """
    return pages_in(Path(root) / "solutions", ".py") or pages_in(pages(root), ".ipynb")


def find_week(week: str, root: Path = ROOT) -> str:
    """Return the full name of a week: "week01" and "week01_collectives" are both "week01_collectives".

    Raises ValueError that lists the existing weeks.
    """
    found = [name for name in weeks(root) if week in (name, name.split("_")[0])]
    if len(found) != 1:
        raise ValueError(f"no week is called {week!r}: {instead(week, weeks(root))}")
    return found[0]


def source_path(week: str, root: Path = ROOT) -> Path:
    """Return the percent source of a week."""
    name = find_week(week, root)
    return Path(root) / "solutions" / name / f"{name}.py"


def release_path(week: str, root: Path = ROOT) -> Path:
    """Return the students' notebook of a week."""
    name = find_week(week, root)
    return pages(root) / name / f"{name}.ipynb"


def grade_id(exercise: str) -> str:
    """Return the name that nbgrader uses for an exercise: "week01.exchange" becomes "week01-exchange"."""
    return exercise.replace(".", "-")


def page(week: str, root: Path = ROOT) -> NotebookNode:
    """Read a week with its solutions, or the released notebook if the course has no sources."""
    return read_source(week, root) if source_path(week, root).is_file() else release(week, root)


def read_source(week: str, root: Path = ROOT) -> NotebookNode:
    """Read a week with its solutions, marked for nbgrader.

    Raises ValueError for a check without an exercise, an id used twice, points that are not positive, and text on the
    line of a mark, which jupytext would read as the cell's title.
    """
    notebook = jupytext.reads(source_path(week, root).read_text(encoding="utf-8"), fmt="py:percent")
    notebook.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    notebook.nbformat_minor = 5
    for cell in notebook.cells:
        marks, extra = nbgrader_marks(cell), cell.metadata.get("optional", False)
        if extra and not marks:
            raise ValueError(f"{week}: a cell that is not a check has optional=true, which only a check can have")
        kept = {key: value for key, value in cell.metadata.items() if key not in (*MARKS, "lines_to_next_cell")}
        kept |= {"nbgrader": marks | {"points": 0}, EXTRA: marks.get("points")} if extra else {"nbgrader": marks}
        cell.metadata = nbformat.from_dict({key: value for key, value in kept.items() if value != {}})
    _refuse_broken_marks(notebook, week)
    _name_cells(notebook)
    return notebook


def nbgrader_marks(cell: NotebookNode) -> dict:
    """Translate a cell's `exercise`, `check` or `manual` mark to nbgrader's format (metadata version 3)."""
    marks = cell.metadata
    if "exercise" in marks:
        own = {"grade_id": grade_id(marks["exercise"]), "grade": False, "solution": True, "locked": False}
    elif "check" in marks:
        own = {"grade_id": grade_id(marks["check"]) + "-check", "grade": True, "solution": False, "locked": True}
    elif "manual" in marks:
        own = {"grade_id": grade_id(marks["manual"]), "grade": True, "solution": True, "locked": False}
    else:
        return {}
    points = {"points": marks.get("points")} if own["grade"] else {}
    return own | points | {"schema_version": 3, "task": False}


def release(week: str, root: Path = ROOT) -> NotebookNode:
    """Make the students' notebook of a week in memory: solutions replaced by stubs, checks locked.

    Without a source, return the released notebook in course/.
    """
    if not source_path(week, root).is_file():
        return nbformat.read(release_path(week, root), 4)
    return nbformat.reads(_released_text(find_week(week, root), Path(root), source_path(week, root).read_bytes()), 4)


def is_stale(week: str, root: Path = ROOT) -> bool:
    """Return whether the notebook in course/ differs from what its source produces now."""
    target = release_path(week, root)
    return not target.is_file() or target.read_text(encoding="utf-8") != _text(release(week, root))


def build(week: str, root: Path = ROOT, force: bool = False) -> Path:
    """Write the students' notebook of a week to course/ and return its path; an up-to-date one is left alone.

    Raises ValueError when the notebook there contains answers; only `force` overwrites those.
    """
    target = release_path(week, root)
    if not is_stale(week, root):
        return target
    answered = [] if force else _answered_cells(target)
    if answered:
        raise ValueError(f"{target} contains answers in {', '.join(answered)}: move it elsewhere, or build with force")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_text(release(week, root)), encoding="utf-8")
    return target


def generate(notebook: NotebookNode, week: str, config: Config, gradebook: str | None = None) -> NotebookNode:
    """Let nbgrader turn a notebook with solutions into the students' version, in a temporary folder.

    With `gradebook`, a database URL, the week's cells and points are also recorded there.
    Raises ValueError with nbgrader's own message when it refuses.
    """
    with tempfile.TemporaryDirectory() as folder, ONE_AT_A_TIME:
        source = Path(folder, "source", week, f"{week}.ipynb")
        source.parent.mkdir(parents=True)
        nbformat.write(notebook, source)
        own = Config(
            CourseDirectory={
                "root": str(Path.cwd()),  # nbgrader does chdir(root); other threads may be using relative paths
                "source_directory": str(Path(folder, "source")),
                "release_directory": str(Path(folder, "release")),
                "db_url": gradebook or "sqlite://",
                "assignment_id": week,
            },
            GenerateAssignment={"no_database": gradebook is None},
            SaveCells={"enabled": gradebook is not None},
        )
        settings = deepcopy(config)
        settings.merge(own)
        run_step(GenerateAssignment(coursedir=CourseDirectory(config=settings), config=settings), week)
        released = nbformat.read(Path(folder, "release", week, f"{week}.ipynb"), 4)
    _name_cells(released)
    return released


class LeaveStubs(ClearSolutions):
    """nbgrader's step that replaces solutions with stubs, except that a stub outside a function does not raise.

    A released cell such as `answers = {"messages": None}` followed by a solution then runs without an error.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> tuple[NotebookNode, Any]:
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if is_solution(cell) and cell.cell_type == "code":
            stub = self.code_stub["python"].splitlines()[1:]
            cell.source = "\n".join(line for line in cell.source.split("\n") if line not in stub)
        return cell, resources


@lru_cache(maxsize=32)
def _released_text(week: str, root: Path, source: bytes) -> str:  # `source` is part of the cache key
    return _text(generate(read_source(week, root), week, load_config(root)))


def _text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook) + "\n"


def _name_cells(notebook: NotebookNode) -> None:
    """Name each cell by its grade id or text, so that builds are reproducible and insertions rename no other cell."""
    seen = Counter()
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name is None:
            seen[cell.source] += 1
            name = content_id(cell.cell_type, seen[cell.source], cell.source)
        cell.id = name[:64]


def _refuse_broken_marks(notebook: NotebookNode, week: str) -> None:
    for cell in notebook.cells:
        if text := cell.metadata.get("title"):
            raise ValueError(f"{week}: no reader sees {text!r} on the line of a cell's mark: put it on its own line")
    cells = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    ids = Counter(cell.metadata.nbgrader.grade_id for cell in cells)
    twice = [name for name, count in ids.items() if count > 1]
    if twice:
        raise ValueError(f"{week}: {', '.join(twice)} is used for more than one cell: give each its own id")
    for cell in cells:
        marks, points = cell.metadata.nbgrader, cell.metadata.get(EXTRA, cell.metadata.nbgrader.get("points"))
        if marks.grade and not (isinstance(points, int | float) and points > 0):
            raise ValueError(f"{week}: {marks.grade_id} has points={points!r}: write a positive number")
        if EXTRA in cell.metadata and (not marks.grade or marks.solution):
            raise ValueError(f"{week}: {marks.grade_id} has optional=true, which only a check can have")
        if marks.grade and not marks.solution and marks.grade_id.removesuffix("-check") not in ids:
            raise ValueError(f"{week}: the check {marks.grade_id} has no exercise cell with the same id")


def _answered_cells(path: Path) -> list[str]:
    """List the exercises of a released notebook whose text differs from nbgrader's stub."""
    if not path.is_file():
        return []
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.metadata.get("nbgrader", {}).get("solution")]
    return [cell.id for cell in cells if cell.metadata.nbgrader.get("checksum") != compute_checksum(cell)]
