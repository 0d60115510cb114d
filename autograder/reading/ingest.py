"""Read a submitted notebook as data: nothing in it is executed, and only the text of cells is used.

We use the source of each exercise, found by grade id, and the code cells that the student has added or changed.
Checks, metadata, outputs and kernel come from our own copy. A broken notebook becomes a note, never an exception.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.reading import cell_text, written
from autograder.reading.names import not_a_student, printable
from autograder.reading.notebook_file import NotReadable, parse, read_regular_file
from autograder.reading.own import modules_in

MOST_OTHERS = 8  # notebooks with other names that are read and listed
MOST_NAME = 60
MOST_NOTE = 300  # characters
MOST_NOTES = 20
IMAGE = re.compile(r"!(?=\[)")
HTML_TAG = re.compile(r"<(?=[A-Za-z/!?])")
ODD_LINK = re.compile(r"\](?=[(:]\s*(?!\s|https?://))")  # Markdown links that are not http(s): javascript:, data:, ...


@dataclass(frozen=True)
class Submission:
    """A student's submission for one week.

    cells   the source of each exercise, by grade id ("week01-exchange"); a missing cell has no entry
    extra   the source of the student's other code cells, in order
    notes   sentences for the feedback about missing, duplicate or unreadable cells
    found   whether there was a file at all ("not submitted" is not zero points)
    places  for each extra cell, the id of our next cell below it; "" if it is below all of ours
    own     the modules of the student's `mine/` by name, as text
    """

    student: str
    week: str
    cells: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    found: bool = True
    places: list[str] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)


def read_submission(student: str, week: str, submitted: Path, root: Path = ROOT) -> Submission:
    """Read the notebook in submitted/<student>/<week>; every problem becomes a note."""
    week = notebooks.find_week(week, root)
    folder = Path(submitted) / student / week
    try:
        if (reason := not_a_student(student)) is not None:
            raise NotReadable(f"the folder is not a student's, because {reason}")
        if folder.is_symlink() or folder.parent.is_symlink():  # do not even list the names in its target
            raise NotReadable("its folder is a link; submit the folder itself")
        path, notes = find_notebook(folder, week, Path(submitted), root)
        if path is None:
            return Submission(student, week, notes=notes, found=False)
        submission = take_cells(parse(read_regular_file(path, Path(submitted))), student, week, root)
    except NotReadable as reason:
        return Submission(student, week, notes=[f"The notebook could not be read: {reason}."])
    return replace(submission, notes=[*submission.notes, *notes])


def find_notebook(folder: Path, week: str, submitted: Path, root: Path = ROOT) -> tuple[Path | None, list[str]]:
    """Find a week's notebook in a student's folder, by name or as the only one with its cells; also return notes.

    Browsers and LMSs rename files: `week01_collectives (1).ipynb`. Raises NotReadable if several notebooks match and
    none has the week's name.
    """
    path = folder / f"{week}.ipynb"
    others = sorted((other for other in folder.glob("*.ipynb") if other != path), key=lambda other: other.name)
    names = _listed(others)
    if os.path.lexists(path):
        return path, [f"Only {week}.ipynb was read, not {names}."] if others else []
    fitting = [other for other in others[:MOST_OTHERS] if _holds(other, week, submitted, root)]
    if len(fitting) > 1:
        raise NotReadable(f"no file is named {week}.ipynb and several contain its cells; keep one: {_listed(fitting)}")
    if not fitting:
        hint = f"; found {names}" if others else ""
        return None, [f"Not submitted: there is no {week}.ipynb{hint}."]
    return fitting[0], [f"{printable(fitting[0].name)} was read, because there is no {week}.ipynb."]


def _listed(paths: list[Path]) -> str:
    shown = ", ".join(printable(path.name)[:MOST_NAME] for path in paths[:MOST_OTHERS])
    return shown + (f" and {len(paths) - MOST_OTHERS} more" if len(paths) > MOST_OTHERS else "")


def _holds(path: Path, week: str, submitted: Path, root: Path) -> bool:
    """Whether a notebook with another name contains an answer cell of this week."""
    try:
        found = take_cells(parse(read_regular_file(path, submitted)), "", week, root).cells
        return any(not written.is_shown_instead(text) for text in found.values())
    except NotReadable:
        return False


def take_cells(cells: list[dict], student: str, week: str, root: Path = ROOT) -> Submission:
    """Pick the answers and the student's own code cells out of parsed cells."""
    ours = notebooks.release(week, root)
    wanted = {cell.metadata.nbgrader.grade_id: cell.cell_type for cell in ours.cells if _is_answer(cell)}
    locked = {cell.metadata.nbgrader.grade_id for cell in ours.cells if "nbgrader" in cell.metadata} - set(wanted)
    given = {cell.source.strip(): cell.id for cell in ours.cells if cell.source.strip()}
    ids = {cell.metadata.nbgrader.grade_id: cell.id for cell in ours.cells if "nbgrader" in cell.metadata}
    checks = {cell.metadata.nbgrader.grade_id: cell.source for cell in ours.cells if _is_check(cell)}
    answers, extra, places, notes, seen = {}, [], [], [], Counter()
    for cell in cells:
        name, kind, source = _grade_id(cell), cell["cell_type"], cell["source"]
        if name is not None and name in wanted:
            seen[name] += 1
            if wanted[name] == "code" and answers.get(name, "").strip() not in {"", *given}:
                extra.append(answers[name])  # a split cell: the other half may contain what this half needs
            answers[name] = source  # the last one counts, as when a notebook runs
            if kind != wanted[name]:
                notes.append(_turned_into(kind, name, source))
        elif name is not None and name not in locked:
            notes.append(f"The cell {name} does not belong to an exercise of this week; it was left out.")
        elif name is None and kind == "code" and source.strip() not in {"", *given}:
            extra.append(source)
            continue
        elif name in checks and kind == "code" and _adds_names(source, checks[name]):
            extra.append(source)  # the answer was written into its check's cell
        if (here := ids.get(name) if name else given.get(source.strip())) is not None:
            places += [here] * (len(extra) - len(places))
    notes += [
        f"The cell {name} occurs {times} times; the last one counts." for name, times in seen.items() if times > 1
    ]
    text = written.find(cells, ours.cells, set(answers))
    answers |= text.answers
    looked_for = "your instructor will look for it"
    notes += [f"No cell was found for the written answer {name}; {looked_for}." for name in text.unsure]
    notes += [f"The cell {name} is missing; was it deleted?" for name in wanted if name not in answers]
    places += [""] * (len(extra) - len(places))
    own, unusable = modules_in(cells)
    return Submission(student, week, answers, extra, _short([*notes, *unusable]), places=places, own=own)


def restore(submission: Submission, root: Path = ROOT) -> NotebookNode:
    """Write the student's answers into our own copy of the notebook, with extra code cells at its end.

    HTML tags and unusual links in written answers are escaped, because graders read them in a browser.
    The notes are stored in the notebook's metadata for the feedback page.
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


def _turned_into(kind: str, name: str, source: str) -> str:
    said = f"The cell {name} was changed to a {kind} cell; "
    try:
        cell_text.read(source)
    except cell_text.NotPython as reason:
        return f"{said}its text was not run: {reason}."
    return f"{said}its text was still used."


def _adds_names(source: str, ours: str) -> bool:
    """Whether a changed check cell defines names that ours does not; its other changes do not matter."""
    try:
        _, statements = cell_text.read(source)
    except cell_text.NotPython:
        return False
    known = {one.shape for one in cell_text.read(ours)[1]}
    return any(one.binds for one in statements if one.shape not in known)


def _is_check(cell: NotebookNode) -> bool:
    marks = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "code" and bool(marks.get("grade")) and not marks.get("solution")


def _harmless(answer: str) -> str:
    """Escape a written answer so that a browser neither runs nor loads anything in it; images become links."""
    return ODD_LINK.sub(r"]\\", HTML_TAG.sub("&lt;", IMAGE.sub("&#33;", answer)))


def _is_answer(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _grade_id(cell: dict) -> str | None:
    """Return the grade id of a submitted cell, or None if it has no usable nbgrader mark."""
    marks = cell["metadata"].get("nbgrader")
    name = marks.get("grade_id") if isinstance(marks, dict) else None
    return name if isinstance(name, str) else None


def _short(notes: list[str]) -> list[str]:
    """Limit the number and length of notes and put each on one line, because they may contain a student's names."""
    kept = [printable(note)[:MOST_NOTE] for note in notes[:MOST_NOTES]]
    return kept + ([f"And {len(notes) - MOST_NOTES} more remarks like these."] if len(notes) > MOST_NOTES else [])


def read_collected(folder: Path) -> dict[str, str] | None:
    """The record in STUDENT/WEEK; None if the submission arrived in another way."""
    try:
        facts = json.loads((folder / "collected.json").read_text(encoding="utf-8"))
        return {key: facts[key] for key in ("lms", "id", "name", "late", "file", "sha256")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
