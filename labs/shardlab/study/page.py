"""A page as a file: the cells of a notebook, the names that identify them, and atomic writes."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode, v4

HIDDEN = "hidden.json"  # in the course's folder
KINDS = ("prerequisites", "week", "quiz", "elective", "project")  # how names of pages begin, in order
EXTRA = "extra_points"  # metadata of an optional check, for which nbgrader counts 0 points
BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)  # raised for malformed files


@dataclass(frozen=True)
class Exercise:
    """An exercise of a page; its points come from its check, or from a teacher if it `is_written`.

    The points of an optional exercise are extra credit.
    """

    name: str
    points: float
    is_written: bool = False
    is_optional: bool = False

    @property
    def week(self) -> str:
        return self.name.partition(".")[0]


def exercise_id(grade_id: str) -> str:
    """Return the exercise of a cell: "week01-ring-all-reduce-check" becomes "week01.ring-all-reduce"."""
    return grade_id.removesuffix("-check").replace("-", ".", 1)


def content_id(kind: str, times: int, source: str) -> str:
    """Return the id of a cell without a grade id, from its text and how many times that text has occurred so far."""
    return hashlib.sha256(f"{kind} {times} {source}".encode()).hexdigest()[:12]


def marks(cell: dict) -> dict:
    """nbgrader's metadata of a cell; {} if it has none."""
    found = cell.get("metadata", {}).get("nbgrader")
    return found if isinstance(found, dict) else {}


def name_of(cell: NotebookNode) -> str:
    """The name that identifies a cell across versions of a page: its grade id, or its id; "" if it has neither."""
    return str(marks(cell).get("grade_id") or cell.get("id") or "")


def is_answer(cell: NotebookNode) -> bool:
    """Whether learners write their answer into this cell."""
    return bool(marks(cell).get("solution"))


def checksum(cell: NotebookNode) -> str:
    """nbgrader's checksum of a released cell; the same as its `compute_checksum`, whose import takes seconds."""
    facts = marks(cell)
    flags = [str(bool(facts.get(flag))) for flag in ("grade", "solution", "locked")]
    points = [str(float(facts["points"]))] if facts.get("grade") else []
    parts = [cell.source, cell.cell_type, *flags, facts["grade_id"], *points]
    return hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()


def read(path: Path) -> NotebookNode:
    """Read a notebook; raises ValueError for a file that is not a notebook or has broken metadata."""
    try:
        notebook = v4.reads(path.read_text(encoding="utf-8"))
        if notebook.get("nbformat") != 4 or not isinstance(notebook.get("cells"), list):
            raise ValueError("it has no list of cells of notebook format 4")
        for part in (notebook, *notebook.cells):
            if not isinstance(part.setdefault("metadata", NotebookNode()), dict):
                raise ValueError("its metadata, or that of a cell, is not a table")
        for cell in notebook.cells:
            if marks(cell).get("checksum"):
                checksum(cell)
            if cell["cell_type"] not in ("code", "markdown", "raw") or not isinstance(cell["source"], str):
                raise ValueError("one of its cells is not code, markdown or raw text")
    except FileNotFoundError:
        raise ValueError(f"there is no notebook {path}") from None
    except BROKEN as error:
        raise ValueError(f"{path} cannot be read as a notebook, so nothing was changed: {reason(error)}") from None
    return notebook


def text_of(notebook: NotebookNode) -> str:
    """The text of a notebook's file."""
    return v4.writes(notebook) + "\n"


def reason(error: Exception) -> str:
    """Describe the error of a broken file."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def write(path: Path, text: str | bytes) -> None:
    """Write a file atomically: readers see the old text or the new one, even after a power failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def free(path: Path) -> Path:
    """The first unused path among `name-1.ipynb`, `name-2.ipynb`, … if `path` is `name.ipynb`."""
    number = 1
    while (found := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return found


def weeks_of(course: Path) -> list[str]:
    """The weeks of a course by name, such as "week01_collectives", in order, without hidden ones."""
    hidden = hidden_in(course)
    return [name for name in pages_in(course, ".ipynb") if name not in hidden]


def pages_in(folder: Path, suffix: str) -> list[str]:
    """The names of all pages NAME/NAME.suffix of a folder, in the order of the course."""
    paths = [path for kind in KINDS for path in sorted(folder.glob(f"{kind}*/{kind}*{suffix}"))]
    return [path.stem for path in paths if path.stem == path.parent.name]


def hidden_in(course: Path) -> list[str]:
    """The weeks that a teacher hides from learners for now (`autograder hide`); ValueError for a malformed list."""
    path = course / HIDDEN
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except BROKEN as error:
        raise ValueError(f"{path} cannot be read ({reason(error)}): write a list of weeks, or delete it") from None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f'{path} is not a list of weeks: write ["week12_expert_parallel"], or delete it')
    return found


def page_path(folder: Path, week: str) -> Path:
    """The path of a week's page, in the course or in a learner's folder."""
    return folder / week / f"{week}.ipynb"


def exercises_of(course: Path, week: str) -> list[Exercise]:
    """The exercises of a week in the page's order, with the points of their checks.

    Raises ValueError that names a broken page.
    """
    path = page_path(course, week)
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return [_exercise(cell) for cell in cells if marks(cell).get("grade")]
    except BROKEN as error:
        raise ValueError(
            f"the course's page {path} is broken: {reason(error)}. Restore it with `git restore {path}`, or "
            "install the course again"
        ) from None


def _exercise(cell: dict) -> Exercise:
    found = marks(cell)
    return Exercise(exercise_id(found["grade_id"]), points_of(cell), bool(found.get("solution")), is_optional(cell))


def is_optional(cell: dict) -> bool:
    """Whether a graded cell gives extra credit."""
    return EXTRA in cell["metadata"]


def points_of(cell: dict) -> float:
    """The points of a graded cell, extra or not; raises TypeError if they are not a number."""
    points = cell["metadata"].get(EXTRA, marks(cell)["points"])
    if isinstance(points, bool) or not isinstance(points, int | float):
        raise TypeError(f"the points of {marks(cell)['grade_id']} are {points!r}")
    return points
