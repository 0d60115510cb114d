"""Select the cells of a week that a reader sees: the students' page, with outputs that do not reveal answers.

An exercise is shown as released, a check without output. An output is folded if the page asks for a prediction first,
or if the cell uses an answer, directly or through other cells; then the output comes from the course's solution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from nbformat import NotebookNode

from autograder.authoring import notebooks
from autograder.reading import cell_text

Kind = Literal["text", "written", "code", "exercise", "check"]
Folded = Literal["", "predict", "answer"]
ASKS_FIRST = re.compile(r"\b(predict|guess|commit to|then run|before you run|estimate)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Shown:
    """One cell of a page: `exercise` is its exercise's name or empty; `folded` says why its outputs are folded."""

    kind: Kind
    source: str
    exercise: str = ""
    outputs: tuple[NotebookNode, ...] = ()
    folded: Folded = ""


def shown(solved: NotebookNode, released: NotebookNode) -> list[Shown]:
    """Return the cells of a page, given the executed notebook with solutions and the students' notebook.

    Raises ValueError if their cells do not match.
    """
    if [cell.cell_type for cell in solved.cells] != [cell.cell_type for cell in released.cells]:
        raise ValueError("the notebook with solutions and the students' notebook have different cells: build course/")
    found, answered, asked = [], set[str](), False
    for cell, given in zip(solved.cells, released.cells, strict=True):
        marks = cell.metadata.get("nbgrader", {})
        exercise = notebooks.exercise_id(marks["grade_id"]) if marks else ""
        if cell.cell_type == "markdown":
            asked = bool(ASKS_FIRST.search(given.source))
            found.append(Shown("written" if marks else "text", given.source, exercise))
        elif marks:
            if marks.get("solution"):
                answered |= _names(cell.source)[0]
            found.append(Shown("exercise" if marks.get("solution") else "check", given.source, exercise))
        else:
            bound, read = _names(cell.source)
            uses_answer = bool(read & answered)
            answered = answered | bound if uses_answer else answered - bound
            folded: Folded = "answer" if uses_answer else "predict" if asked else ""
            found.append(Shown("code", given.source, outputs=tuple(cell.outputs), folded=folded))
    return found


def solution_lines(solved: NotebookNode, released: NotebookNode) -> set[str]:
    """Return solution lines that occur nowhere in the students' page, and so must not occur on the site."""
    given = {line.strip("`") for cell in released.cells for line in _lines(cell.source)}  # a hint quotes a line
    marked = [cell.source for cell in solved.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    return {line for source in marked for line in _lines(source)} - given


def _names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell's statements bind, and the names they read from other cells."""
    _, statements = cell_text.read(source)
    return {name for one in statements for name in one.binds}, {name for one in statements for name in one.reads}


def _lines(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines() if line.strip() and not line.strip().startswith("###")]
