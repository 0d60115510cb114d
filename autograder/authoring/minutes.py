"""Estimate the time that a page takes, by a rule that counts its words, code, exercises and lines of its answers.

It is an estimate for a student who meets the topic for the first time, not a measurement. The rates are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from nbformat import NotebookNode

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT

WORDS_PER_MINUTE = 150  # of technical prose
PER_GIVEN_LINE = 8 / 60  # minutes for reading a line of code
PER_CELL = 0.5  # for running a code cell and looking at its output
PER_EXERCISE = 6.0  # for its contract, and for the checks that fail first
PER_ANSWER_LINE = 1.0
PER_WRITTEN = 10.0
OPTIONAL = "## Optional"  # the heading of the part whose exercises give extra credit


@dataclass(frozen=True)
class Minutes:
    """The estimated minutes of a page's core and of its optional part."""

    core: float
    optional: float

    def __str__(self) -> str:
        """The words at the top of a page, rounded up to tens."""
        core, optional = (10 * ceil(one / 10) for one in (self.core, self.optional))
        return f"Core: about {core} minutes" + (f"; optional: about {optional}" if optional else "")


def minutes(week: str, root: Path = ROOT) -> Minutes:
    """Estimate a week from its source."""
    core, optional = parts(notebooks.read_source(week, root).cells)
    stubs = {cell.id: cell.source for cell in notebooks.release(week, root).cells}
    return Minutes(_minutes(core, stubs), _minutes(optional, stubs))


def parts(cells: Sequence[NotebookNode]) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """Split a page's cells before its optional part."""
    begins = (number for number, cell in enumerate(cells) if cell.source.startswith(OPTIONAL))
    first = next(begins, len(cells))
    return list(cells[:first]), list(cells[first:])


def _minutes(cells: Sequence[NotebookNode], stubs: dict[str, str]) -> float:
    return sum(_of_cell(cell, stubs.get(cell.id, "")) for cell in cells)


def _of_cell(cell: NotebookNode, stub: str) -> float:
    marks = cell.metadata.get("nbgrader", {})
    if cell.cell_type == "markdown":
        return PER_WRITTEN if marks.get("grade") else len(cell.source.split()) / WORDS_PER_MINUTE
    if marks.get("grade"):
        return PER_CELL
    given = _lines(stub if marks else cell.source)
    answer = max(0, _lines(cell.source) - given) if marks else 0
    return PER_CELL + PER_GIVEN_LINE * given + (PER_EXERCISE + PER_ANSWER_LINE * answer if marks else 0.0)


def _lines(source: str) -> int:
    """Lines of code, without blank lines and comments."""
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in source.splitlines())
