"""Known answers to every exercise: honest ones, which must be accepted, and wrong ones, which must be rejected.

`solutions/weekNN_topic/known/exercise.py` has a cell for each answer. Names of honest answers begin with `right_`. The
first line of the docstring says what the answer does. A wrong answer that passes the visible check gives the reason in
another line. An answer that differs from another one in only a few lines is written as a diff:

    # %% right_in_order
    \"\"\"Different: begins with its own piece.\"\"\"
    ...

    # %% sends_whole_tensors of="right_in_order"
    \"\"\"Wrong: every rank sends all it has.

    Not in sight: one rank has nothing to send.
    \"\"\"

    # -    piece = pieces[(rank - step) % size]
    # +    piece = tensor

A block of the diff replaces its unchanged lines (`#  `, two spaces) and its old lines (`# -`), which together must
occur exactly once in the answer. `# %% right_as_taught from="page"` is the page's own solution, placed below the
imports in the cell. `also="week15.finish"` places the solutions of other exercises that it calls above it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring import percent
from autograder.authoring.course import ROOT

NOT_IN_SIGHT = "Not in sight: "
SOLUTION = re.compile(r"^ *### (BEGIN|END) SOLUTION\n", re.MULTILINE)


@dataclass(frozen=True)
class Known:
    """One known answer: its source, one line on what it does, and the reason if the visible check may miss it."""

    exercise: str
    name: str
    story: str
    source: str
    reason: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it is honest and must be accepted."""
        return self.name.startswith("right_")


def answers_of(exercise: str, root: Path = ROOT) -> list[Known]:
    """Every known answer to an exercise, sorted by name; empty if this copy of the course has no solutions.

    Raises ValueError for a diff that does not apply exactly once.
    """
    week, name = exercise.split(".")
    paths = (root / "solutions").glob(f"{week}*/known/{name.replace('-', '_')}.py")
    return sorted((one for path in paths for one in _read(path, exercise)), key=lambda one: one.name)


def find(exercise: str, name: str) -> Known:
    """One known answer. Raises ValueError if there is none with that name."""
    for one in answers_of(exercise):
        if one.name == name:
            return one
    raise ValueError(f"{exercise} has no known answer {name!r}")


def right_of(exercise: str) -> Known:
    """An honest answer. Raises ValueError if none is known."""
    for one in answers_of(exercise):
        if one.is_right:
            return one
    raise ValueError(f"no right answer to {exercise} is known: add a cell `# %% right_…`")


def _read(path: Path, exercise: str) -> Iterator[Known]:
    whole: dict[str, str] = {}
    for cell in percent.named_cells(path):
        try:
            told = _docstring(cell).splitlines()
            if "of" in cell.marks:
                source = f'"""{told[0]}"""\n\n{_changed(cell, whole)}'
            else:
                source = whole[cell.name] = cell.text + _of_the_page(cell, path, exercise)
        except ValueError as error:
            raise ValueError(f"{path}: [{cell.name}] {error}") from None
        reasons = [line.removeprefix(NOT_IN_SIGHT) for line in told if line.startswith(NOT_IN_SIGHT)]
        yield Known(exercise, cell.name, told[0], source, "".join(reasons))


def _docstring(cell: percent.Cell) -> str:
    """The docstring of an answer. Raises ValueError if a cell is not Python, has no docstring or has unknown marks."""
    if cell.marks.keys() - {"of"} and {**cell.marks, "also": ""} != {"from": "page", "also": ""}:
        raise ValueError('has unknown marks: use of="another_answer", from="page", or no mark')
    try:
        told = ast.get_docstring(ast.parse(cell.text))
    except SyntaxError as error:
        raise ValueError(f"is not Python: {error}") from None
    if not told:
        raise ValueError("has no docstring: say in one line what the answer does")
    return told


def _of_the_page(cell: percent.Cell, path: Path, exercise: str) -> str:
    """The page's solution, if a cell asks for it. Raises ValueError if the page has none."""
    if "from" not in cell.marks:
        return ""
    page = path.parents[1] / f"{path.parents[1].name}.py"
    wanted = [*cell.marks.get("also", "").split(), exercise]
    found = {one.marks.get("exercise"): one.text for one in percent.cells_of(page)}
    if missing := [one for one in wanted if one not in found]:
        raise ValueError(f'takes the solution of {page.name}, which has no cell with exercise="{missing[0]}"')
    texts = [found[one] for one in wanted]
    return "\n\n" + SOLUTION.sub("", "\n\n".join(texts))


def _changed(cell: percent.Cell, whole: dict[str, str]) -> str:
    """Apply a cell's diff to the answer that it changes. Raises ValueError if it does not apply."""
    base = cell.marks["of"]
    if base not in whole:
        raise ValueError(f"changes {base!r}, but there is no such whole answer above it: use one of {', '.join(whole)}")
    code, end, parts = _without_docstring(whole[base]), 0, []
    for old, new in _blocks(_without_docstring(cell.text)):
        places = [match.start() for match in re.finditer(f"^(?={re.escape(old)})", code, re.MULTILINE)]
        if len(places) != 1:
            raise ValueError(f"changes lines that occur {len(places)} times in {base}:\n{old}")
        if places[0] < end:
            raise ValueError(f"changes these lines after later ones; put its blocks in order:\n{old}")
        parts.append(code[end : places[0]] + new)
        end = places[0] + len(old)
    return "".join(parts) + code[end:]


def _blocks(diff: str) -> Iterator[tuple[str, str]]:
    """The old and new lines of each block of a diff. Raises ValueError for a block without old lines or changes."""
    for block in re.split(r"\n{2,}", diff.strip("\n")):
        lines = [line.removeprefix("# ") if line != "#" else " " for line in block.split("\n")]
        if any(line[:1] not in ("-", "+", " ") for line in lines) or not block.startswith("#"):
            raise ValueError(f"lines of a diff must begin with `# -`, `# +`, or `#` and two spaces:\n{block}")
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] in signs) for signs in (" -", " +"))
        if not old or old == new:
            raise ValueError(f"this block changes nothing, or names no line to change:\n{block}")
        yield old, new


def _without_docstring(source: str) -> str:
    first = ast.parse(source).body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return "".join(source.splitlines(keepends=True)[first.end_lineno if is_text else 0 :]).lstrip("\n")
