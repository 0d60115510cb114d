"""Read a submitted notebook as data: nothing in it is executed, and only the text of cells is taken.

Of each exercise we take its source, found by grade id, and of the rest the code cells that are not ours.
Checks, metadata, outputs and kernel come from our own copy. A broken notebook gives a sentence, never an exception.
"""

import json
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder import notebooks
from autograder.course import ROOT

MAX_BYTES = 5_000_000
MAX_DEPTH = 40  # JupyterLab's notebooks stay under ten
HTML_TAG = re.compile(r"<(?=[A-Za-z/!?])")
ODD_LINK = re.compile(
    r"\](?=[(:]\s*(?!\s|https?://))"
)  # markdown links to anything but the web: javascript:, data:, ...


class NotReadable(ValueError):
    """A submission that cannot be read; the message is the sentence for the student."""


@dataclass(frozen=True)
class Submission:
    """What a student has handed in for one week.

    cells   the source of each exercise, by grade id ("week01-exchange"); a missing cell has no entry
    extra   the source of the student's other code cells, in order
    notes   sentences for the feedback: what was missing, twice there, or unreadable
    found   whether there was a file at all ("not submitted" is not zero points)
    places  for each extra cell the id of our cell that it stands above; "" below all of ours
    """

    student: str
    week: str
    cells: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    found: bool = True
    places: list[str] = field(default_factory=list)


def read_submission(student: str, week: str, submitted: Path, root: Path = ROOT) -> Submission:
    """Read submitted/<student>/<week>/<week>.ipynb; whatever is wrong with it becomes a note."""
    week = notebooks.find_week(week, root)
    path = Path(submitted) / student / week / f"{week}.ipynb"
    try:
        if Path(student).name != student:
            raise NotReadable("a student's name must be one folder's name")
        if path.parent.is_symlink() or path.parent.parent.is_symlink():  # not even names are told of what it leads to
            raise NotReadable("its folder is a link, hand in the folder itself")
        others = sorted(other.name for other in path.parent.glob("*.ipynb") if other != path)
        if not os.path.lexists(path):
            hint = f"; found {', '.join(others)}" if others else ""
            return Submission(student, week, notes=[f"Not submitted: there is no {week}.ipynb{hint}."], found=False)
        cells = parse(read_regular_file(path, Path(submitted)))
        submission = take_cells(cells, student, week, root)
    except NotReadable as reason:
        return Submission(student, week, notes=[f"The notebook could not be read: {reason}."])
    if others:
        submission.notes.append(f"Only {week}.ipynb was read, not {', '.join(others)}.")
    return submission


def read_regular_file(path: Path, top: Path) -> bytes:
    """Read a file below `top`, of at most 5 MB, following no symbolic link on the way.

    Raises NotReadable for anything but a regular file.
    """
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        *folders, name = path.relative_to(top).parts
        for part in folders:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        # O_NONBLOCK: opening a named pipe must not wait for a writer
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise NotReadable("it is a link or not a regular file, hand in the file itself") from error
    finally:
        os.close(folder)
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        os.close(file)
        raise NotReadable("it is not a regular file, hand in the file itself")
    with os.fdopen(file, "rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        size = max(facts.st_size, len(data)) / 1e6
        raise NotReadable(f"it has {size:.1f} MB and at most {MAX_BYTES / 1e6:.0f} MB are read, clear the outputs")
    return data


def parse(data: bytes) -> list[dict]:
    """Turn the bytes of a notebook into cells with `cell_type`, `source` (text) and `metadata` (dict).

    Raises NotReadable with the first thing that is wrong.
    """
    try:
        text = data.decode("utf-8-sig")
        _refuse_deep(text)
        content = json.loads(text)
    except UnicodeDecodeError as error:
        raise NotReadable(f"byte {error.start} is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise NotReadable(f"it is not a notebook, JSON error at line {error.lineno}: {error.msg}") from error
    except NotReadable:
        raise
    except (ValueError, RecursionError) as error:
        raise NotReadable("it is not a notebook, it holds a number that is too long") from error
    if not isinstance(content, dict):
        raise NotReadable("it is not a notebook, the outermost level is not an object")
    if content.get("nbformat") == 3:
        content = {"cells": _cells_of_version_3(content)}
    cells = content.get("cells")
    if not isinstance(cells, list):
        raise NotReadable("it is not a notebook, it has no list of cells")
    return [_plain_cell(cell, number) for number, cell in enumerate(cells, start=1)]


def take_cells(cells: list[dict], student: str, week: str, root: Path = ROOT) -> Submission:
    """Pick the answers and the student's own code cells out of parsed cells."""
    ours = notebooks.release(week, root)
    wanted = {cell.metadata.nbgrader.grade_id: cell.cell_type for cell in ours.cells if _is_answer(cell)}
    locked = {cell.metadata.nbgrader.grade_id for cell in ours.cells if "nbgrader" in cell.metadata} - set(wanted)
    given = {cell.source.strip(): cell.id for cell in ours.cells if cell.source.strip()}
    ids = {cell.metadata.nbgrader.grade_id: cell.id for cell in ours.cells if "nbgrader" in cell.metadata}
    answers, extra, places, notes, seen = {}, [], [], [], Counter()
    for cell in cells:
        name, kind, source = _grade_id(cell), cell["cell_type"], cell["source"]
        if name in wanted:
            seen[name] += 1
            if wanted[name] == "code" and answers.get(name, "").strip() not in {"", *given}:
                extra.append(answers[name])  # a cell that was split: its other half may hold what this one needs
            answers[name] = source  # the last one counts, as when the notebook is run
            if kind != wanted[name]:
                notes.append(f"The cell {name} was turned into a {kind} cell; its text was read all the same.")
        elif name is not None and name not in locked:
            notes.append(f"The cell {name} belongs to no exercise of this week; it was left out.")
        elif name is None and kind == "code" and source.strip() not in {"", *given}:
            extra.append(source)
            continue
        if (here := ids.get(name) if name else given.get(source.strip())) is not None:
            places += [here] * (len(extra) - len(places))
    notes += [
        f"The cell {name} is there {times} times; the last one counts." for name, times in seen.items() if times > 1
    ]
    notes += [f"The cell {name} is missing; was it deleted?" for name in wanted if name not in answers]
    places += [""] * (len(extra) - len(places))
    return Submission(student, week, answers, extra, [_short(note) for note in notes], places=places)


def restore(submission: Submission, root: Path = ROOT) -> NotebookNode:
    """Write the student's answers into our own copy of the notebook; extra code cells stand at its end.

    HTML tags and odd links in written answers are escaped, because graders read them in a browser.
    The notes go into the notebook's metadata, where the feedback page finds them.
    """
    notebook = notebooks.release(submission.week, root)
    for cell in notebook.cells:
        if _is_answer(cell) and cell.metadata.nbgrader.grade_id in submission.cells:
            answer = submission.cells[cell.metadata.nbgrader.grade_id]
            cell.source = _harmless(answer) if cell.cell_type == "markdown" else answer
    for number, source in enumerate(submission.extra, start=1):
        notebook.cells.append(nbformat.v4.new_code_cell(source, id=f"extra-{number}"))
    notebook.metadata["notes"] = list(submission.notes)
    return notebook


def _harmless(answer: str) -> str:
    """Keep a browser from running anything that stands in a written answer."""
    return ODD_LINK.sub(r"]\\", HTML_TAG.sub("&lt;", answer))


def _is_answer(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _grade_id(cell: dict) -> str | None:
    """Return the grade id of a submitted cell, or None when it has no usable nbgrader mark."""
    marks = cell["metadata"].get("nbgrader")
    name = marks.get("grade_id") if isinstance(marks, dict) else None
    return name if isinstance(name, str) else None


def _plain_cell(cell: object, number: int) -> dict:
    """Check one cell and keep type, text and metadata."""
    if not isinstance(cell, dict):
        raise NotReadable(f"cell {number} is not an object")
    source, metadata = cell.get("source", ""), cell.get("metadata", {})
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise NotReadable(f"cell {number}: its source is not text")
    if cell.get("cell_type") not in ("code", "markdown", "raw"):
        raise NotReadable(f"cell {number}: its type is not code, markdown or raw")
    clean = source.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate could not be written to a file
    return {"cell_type": cell["cell_type"], "source": clean, "metadata": metadata if isinstance(metadata, dict) else {}}


def _cells_of_version_3(content: dict) -> list:
    """Collect the cells of a notebook of before 2015: they stood in worksheets, and code was called `input`."""
    sheets = content.get("worksheets")
    sheets = sheets if isinstance(sheets, list) else []
    lists = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    cells = [cell for cells in lists if isinstance(cells, list) for cell in cells if isinstance(cell, dict)]
    types = {"code": "code", "raw": "raw"}  # version 3 also had html and heading cells
    return [
        {
            "cell_type": types.get(str(cell.get("cell_type")), "markdown"),
            "source": cell.get("input", cell.get("source", "")),
            "metadata": cell.get("metadata"),
        }
        for cell in cells
    ]


def _refuse_deep(text: str) -> None:
    """Refuse brackets nested deeper than any notebook has, before a parser meets them."""
    depth, in_string = 0, False
    for match in re.finditer(r'\\.|["\[\]{}]', text, re.DOTALL):
        mark = match.group()
        if mark == '"':
            in_string = not in_string
        elif not in_string and mark in "[{":
            depth += 1
        elif not in_string and mark in "]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise NotReadable(f"its JSON is nested more than {MAX_DEPTH} levels deep")


def _short(note: str) -> str:
    """Keep a note on one line, whatever a student has put into a name."""
    return re.sub(r"\s+", " ", note)[:300]
