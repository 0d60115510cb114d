"""Find written answers in cells without nbgrader's marks, because some editors and converters strip metadata.

A cell is found by its id, then by its position between unchanged cells of the page. An answer that is not found either
way is flagged for grading, and the instructor sees all text that the student has added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from nbformat import NotebookNode

NOT_FOUND = "*No cell was found for this answer. The text cells that the student added:*"
MOST_TEXT = 100_000  # characters shown in place of an answer


@dataclass(frozen=True)
class Written:
    """Answers by grade id; `unsure` lists those without a cell, whose text is everything that the student added."""

    answers: dict[str, str]
    unsure: list[str]


def find(cells: Sequence[dict[str, Any]], ours: Sequence[NotebookNode], known: set[str]) -> Written:
    """Find the written answers that are not already `known` by their marks. `ours` are the cells of the page."""
    wanted = [at for at, cell in enumerate(ours) if _is_written(cell) and _name(cell) not in known]
    if not wanted:
        return Written({}, [])
    at_id = {cell.id: at for at, cell in enumerate(ours)}
    marks = {_name(cell): at for at, cell in enumerate(ours) if _name(cell)}
    placed = [marks.get(_mark_of(cell), at_id.get(cell.get("id", ""))) for cell in cells]
    taken = {at: number for number, at in enumerate(placed) if at in wanted}  # the last of several cells
    places = _by_place(cells, ours, placed)
    for at in wanted:
        if at not in taken and at in places:
            taken[at] = places[at]
    answers = {_name(ours[at]): cells[number]["source"] for at, number in taken.items()}
    given = {cell.source.strip() for cell in ours}
    claimed = {*taken.values(), *(number for number, at in enumerate(placed) if at is not None)}
    own = [cell["source"] for number, cell in enumerate(cells) if number not in claimed and _is_own(cell, given)]
    blank = {
        at
        for at in wanted
        if at in taken and at not in placed and cells[taken[at]]["source"].strip() == ours[at].source.strip()
    }
    unsure = [_name(ours[at]) for at in wanted if own and (at not in taken or at in blank)]
    shown = "\n\n".join([NOT_FOUND, *own])[:MOST_TEXT]
    return Written(answers | dict.fromkeys(unsure, shown), unsure)


def is_shown_instead(text: str) -> bool:
    """Whether a text replaces an answer for which no cell was found."""
    return text.startswith(NOT_FOUND)


def _by_place(
    cells: Sequence[dict[str, Any]], ours: Sequence[NotebookNode], placed: Sequence[int | None]
) -> dict[int, int]:
    """Match cells of the page to the student's cells by position, where that is unambiguous."""
    keys = [f"{cell.cell_type}\n{cell.source.strip()}" for cell in ours]
    theirs = [
        keys[at] if at is not None else f"{cell['cell_type']}\n{cell['source'].strip()}"
        for cell, at in zip(cells, placed, strict=True)
    ]
    steps = SequenceMatcher(None, keys, theirs, autojunk=False).get_opcodes()
    if not any(step[0] == "equal" for step in steps):
        return {}  # it is another notebook
    found: dict[int, int] = {}
    for kind, a, b, c, d in steps:
        gaps = [at for at in range(a, b) if _is_written(ours[at])]
        texts = [number for number in range(c, d) if cells[number]["cell_type"] != "code" and placed[number] is None]
        if kind == "equal":
            found |= dict(zip(range(a, b), range(c, d), strict=True))
        elif len(gaps) == len(texts):
            found |= dict(zip(gaps, texts, strict=True))
    return found


def _is_written(cell: NotebookNode) -> bool:
    marks = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "markdown" and bool(marks.get("solution"))


def _name(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def _mark_of(cell: dict[str, Any]) -> str:
    marks = cell["metadata"].get("nbgrader")
    name = marks.get("grade_id") if isinstance(marks, dict) else None
    return name if isinstance(name, str) else ""


def _is_own(cell: dict[str, Any], given: set[str]) -> bool:
    """Whether a cell is text that the student has added."""
    return cell["cell_type"] != "code" and cell["source"].strip() not in {"", *given}
