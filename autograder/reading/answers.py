"""Select the cells that a rank needs for one exercise, in the notebook's order, and the cell that holds the answer.

As in a notebook that runs from the top, the cells above an exercise's check count. If the exercise's own cell is still
the released stub and the answer is in another cell, that cell is used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.jobs.statements import FUNCTIONS, Statement
from autograder.reading import ingest
from autograder.reading.cell_text import NotPython, read
from autograder.reading.program import AnswerCell, given_in, has_stub, named


@dataclass(frozen=True)
class Cell:
    """A code cell: `grade_id` is empty if it is not nbgrader's; `released` is its text on the page.

    `released` is empty for a cell that a student added; for a changed copy of a given cell, it is the page's text.
    """

    name: str
    source: str
    grade_id: str = ""
    is_given: bool = False
    released: str = ""

    @property
    def is_extra(self) -> bool:
        """Whether a student has added it, or it is a changed cell of the page."""
        return not self.is_given and not self.grade_id

    @cached_property
    def asked(self) -> set[str]:
        """The names that an exercise's cell asks a student to define."""
        given = {one.shape for one in given_in(self.released)}
        return {name for one in _statements(self.released) if one.shape not in given for name in one.binds}

    def answers(self, names: set[str]) -> set[str]:
        """Those of `names` that a student defines here, beyond the released text and its stubs."""
        released = {one.shape for one in _statements(self.released)}
        stubs = set(_stubs(self.released))
        new = [one for one in _statements(self.source) if one.shape not in released and not _is_stub(one, stubs)]
        return names & {name for one in new for name in one.binds}


def answer_of(
    exercise: str, names: Sequence[str], submission: ingest.Submission, root: Path = ROOT
) -> dict[str, Any] | None:
    """The cells for an exercise that asks for `names`, as fields of `program.AnswerCell`; None if unanswered.

    A stub comes first, so that any definition overrides it; then the student's extra cells from further down, which
    override nothing; then all cells down to the check, or down to the answer if it is below the check.
    """
    return answer_in(cells_of(submission, root), exercise, names)


def answer_in(cells: Sequence[Cell], exercise: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Like `answer_of`, from cells that are already in order."""
    own, last = notebooks.grade_id(exercise), {cell.grade_id: place for place, cell in enumerate(cells)}
    place = last.get(own)
    asked = {*names, *(cells[place].asked if place is not None else ())}
    elsewhere = _last_that_answers(cells, asked, place)
    left = asked if place is None else cells[place].asked - cells[place].answers(asked)
    moved = elsewhere is not None and (place is None or not cells[place].answers(asked))
    answer = elsewhere if moved else place
    if answer is None:
        return None
    end = max(answer, last.get(f"{own}-check", 0))
    if elsewhere is not None and cells[elsewhere].answers(left):
        end = max(end, elsewhere)
    stub = [place] if moved and place is not None else []
    below = [at for at in range(end + 1, len(cells)) if cells[at].is_extra]
    above = [at for at in range(end + 1) if at not in stub]
    return {"cells": [_message(cells[at], at == answer) for at in [*stub, *below, *above]]}


def _last_that_answers(cells: Sequence[Cell], asked: set[str], own: int | None) -> int | None:
    """The last of the other cells that defines a requested name, ignoring names that another exercise asks for."""
    found = [
        at for at, cell in enumerate(cells) if at != own and not cell.is_given and cell.answers(_meant(cell, asked))
    ]
    return max(found, default=None)


def _meant(cell: Cell, asked: set[str]) -> set[str]:
    return asked if cell.is_extra else asked - {name for one in _statements(cell.released) for name in one.binds}


def _message(cell: Cell, is_answer: bool) -> list[str | bool]:
    return [cell.name, cell.source, is_answer, cell.is_given, "" if cell.is_given else cell.released]


def cells_of(submission: ingest.Submission, root: Path = ROOT) -> list[Cell]:
    """The code cells of a submission in order: the page's with the student's answers, and the student's own in between.

    A given cell that the student has changed comes after our copy of it, so that it overrides the copy.
    """
    week, cells = submission.week.split("_")[0], []
    page = notebooks.release(submission.week, root).cells
    given = [
        one.source for one in page if one.cell_type == "code" and not one.metadata.get("nbgrader", {}).get("solution")
    ]
    extra = [
        (place, Cell(f"{week} extra {number}", source, released=_original(source, given)))
        for number, (source, place) in enumerate(zip_longest(submission.extra, submission.places, fillvalue=""), 1)
    ]
    for number, cell in enumerate(page, 1):
        cells += [one for place, one in extra if place == cell.id]
        marks = cell.metadata.get("nbgrader", {})
        name = marks.get("grade_id", "")
        if cell.cell_type == "code" and not marks.get("solution"):
            cells.append(Cell(f"{week} given {number}", cell.source, name, is_given=True))
        elif cell.cell_type == "code" and name in submission.cells:
            source = submission.cells[name]
            cells.append(Cell(notebooks.exercise_id(name), source, name, released=cell.source))
    return [*cells, *(one for place, one in extra if not place)]


def note_of(exercise: str, answer: dict[str, Any]) -> str:
    """A sentence that names the cell the answer was taken from, if it was not the exercise's own; otherwise empty."""
    (row,) = [AnswerCell(*cell) for cell in answer["cells"] if cell[2]]
    if row.name == exercise:
        return ""
    where = "another cell" if row.is_extra else f"the cell of {row.name.split('.')[-1]}"
    begins = f": {named(row)[0].lower()}{named(row)[1:]}" if row.is_extra else ""
    return f"The exercise's own cell is not filled in, so your code in {where} was judged{begins}."


def _original(source: str, given: Sequence[str]) -> str:
    """The given cell of which this text is a changed copy, with at least half of its statements; otherwise empty."""
    mine = {one.shape for one in _statements(source)}
    shared = {text: len(mine & ours) / len(ours) for text in given if (ours := _shapes(text))}
    best = max(shared, key=lambda text: shared[text], default="")
    return best if best and shared[best] >= 0.5 else ""


def _shapes(source: str) -> set[str]:
    return {one.shape for one in _statements(source)}


def _statements(source: str) -> Sequence[Statement]:
    try:
        return read(source)[1] if source else ()
    except NotPython:
        return ()


# ---- stubs ----------------------------------------------------------------------------------------------------------


def _stubs(released: str) -> Iterator[str]:
    """The stub statements, which mark missing code, as syntax trees."""
    for statement in filter(has_stub, _statements(released)):
        yield from (ast.dump(node) for node in ast.walk(statement.tree) if isinstance(node, ast.Raise))


def _is_stub(statement: Statement, stubs: set[str]) -> bool:
    """Whether a function in it still reaches a released stub; a stub in a comment or in dead code does not count."""
    functions = [node for node in ast.walk(statement.tree) if isinstance(node, FUNCTIONS)]
    return any(_comes_to_a_stub(one.body, stubs) for one in functions)


def _comes_to_a_stub(body: Sequence[ast.stmt], stubs: set[str]) -> bool:
    ends = next((one for one in body if isinstance(one, ast.Return | ast.Raise)), None)
    return isinstance(ends, ast.Raise) and ast.dump(ends) in stubs
