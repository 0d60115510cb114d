"""Which cells a rank needs for one exercise, in the notebook's order, and which of them holds the answer.

As in a notebook that is run from the top, what stands above an exercise's check counts. An answer that was written into
another cell, while the exercise's own is still the released stub, is taken from there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from autograder import ingest, notebooks
from autograder.course import ROOT

_STUB = re.compile(r"^[ \t]*(raise NotImplementedError\(.*\))$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A code cell: `grade_id` is empty where it is not nbgrader's, `stub` is what an exercise's cell was released as.

    `stub` is None in the page's own cells, and empty in cells that a student has added.
    """

    name: str
    source: str
    grade_id: str = ""
    stub: str | None = None

    @property
    def is_answered(self) -> bool:
        """Whether a student has written here more than remarks around what was released."""
        if self.stub is None or self.source.strip() == self.stub.strip():
            return False
        return not 0 < len(_STUB.findall(self.stub)) <= self.stubs_left

    @property
    def stubs_left(self) -> int:
        """How many functions are still as they were released."""
        return sum(self.source.count(line) for line in set(_STUB.findall(self.stub or "")))

    def defines(self, names: Sequence[str]) -> bool:
        """Whether a student defines one of these names here, as far as the text tells."""
        either = "|".join(map(re.escape, names))
        pattern = rf"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+(?:{either})\b|^(?:{either})[ \t]*(?::[^=\n]*)?=(?!=)"
        return bool(names) and self.is_answered and re.search(pattern, self.source, re.MULTILINE) is not None


def answer_of(
    exercise: str, names: Sequence[str], submission: ingest.Submission, root: Path = ROOT
) -> dict[str, Any] | None:
    """The cells for an exercise that asks for `names`, None without answer; each is [name, source, is it, is it ours].

    A stub comes first, so that any definition overrides it; then the student's extra cells from further down, which
    override nothing; then all cells down to the check, or to the answer where that stands further down.
    """
    cells = cells_of(submission, root)
    own, last = notebooks.grade_id(exercise), {cell.grade_id: place for place, cell in enumerate(cells)}
    place = last.get(own)
    elsewhere = max((at for at, cell in enumerate(cells) if at != place and cell.defines(names)), default=None)
    moved = elsewhere is not None and (place is None or not cells[place].is_answered)
    answer = elsewhere if moved else place
    if answer is None:
        return None
    end = max(answer, last.get(f"{own}-check", 0))
    if elsewhere is not None and place is not None and cells[place].stubs_left:
        end = max(end, elsewhere)
    stub = [place] if moved and place is not None else []
    below = [at for at in range(end + 1, len(cells)) if cells[at].stub == ""]
    above = [at for at in range(end + 1) if at not in stub]
    return {"cells": [_message(cells[at], at == answer) for at in [*stub, *below, *above]]}


def _message(cell: Cell, is_answer: bool) -> list[str | bool]:
    return [cell.name, cell.source, is_answer, cell.stub is None]


def cells_of(submission: ingest.Submission, root: Path = ROOT) -> list[Cell]:
    """The code cells of a submission in order: the page's, with the student's answers, and the student's own between.

    A given cell that the student has changed stands behind our copy of it, which it overrides.
    """
    week, cells = submission.week.split("_")[0], []
    extra = [
        (place, Cell(f"{week} extra {number}", source, stub=""))
        for number, (source, place) in enumerate(zip_longest(submission.extra, submission.places, fillvalue=""), 1)
    ]
    for number, cell in enumerate(notebooks.release(submission.week, root).cells, 1):
        cells += [one for place, one in extra if place == cell.id]
        marks = cell.metadata.get("nbgrader", {})
        name = marks.get("grade_id", "")
        if cell.cell_type == "code" and not marks.get("solution"):
            cells.append(Cell(f"{week} given {number}", cell.source, name))
        elif cell.cell_type == "code" and name in submission.cells:
            cells.append(Cell(notebooks.exercise_id(name), submission.cells[name], name, cell.source))
    return [*cells, *(one for place, one in extra if not place)]


def note_of(exercise: str, answer: dict[str, Any]) -> str:
    """The sentence that says in which other cell the answer stood, if it did."""
    (name,) = [cell[0] for cell in answer["cells"] if cell[2]]
    if name == exercise:
        return ""
    where = "a cell of your own" if " extra " in name else f"the cell of {name.split('.')[-1]}"
    return f"The exercise's own cell is not filled in, so what you wrote in {where} was judged."
