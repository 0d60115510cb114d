"""Known answers of every exercise: honest ones, which must live, and wrong ones, which must die.

`solutions/weekNN_topic/known/exercise.py` has a cell for each answer. Names that begin with `right_` are honest. The
docstring's first line says what the answer does; a wrong one that passes the visible check says in another line why it
may. An answer that is another one with a few changed lines is written as a diff of it:

    # %% right_in_order
    \"\"\"Different: begins with its own piece.\"\"\"
    ...

    # %% sends_whole_tensors of="right_in_order"
    \"\"\"Wrong: every rank sends all it has.

    Not in sight: one rank has nothing to send.
    \"\"\"

    # -    piece = pieces[(rank - step) % size]
    # +    piece = tensor

A block of the diff replaces its unchanged lines (`#  `, two spaces) and its old ones (`# -`), which must occur exactly
once in the answer. `# %% right_as_taught from="page"` is the page's own solution, below the imports in the cell, and
with `also="week15.finish"` below the solutions of other exercises that it calls.
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
    """One known answer: its source, what it does in a line, and why the visible check may miss it, if it may."""

    exercise: str
    name: str
    story: str
    source: str
    reason: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it is honest and must live."""
        return self.name.startswith("right_")


def answers_of(exercise: str, root: Path = ROOT) -> list[Known]:
    """Every known answer of an exercise, by name; none where the course was given out without its solutions.

    Raises ValueError for a change that does not apply exactly once.
    """
    week, name = exercise.split(".")
    paths = (root / "solutions").glob(f"{week}_*/known/{name.replace('-', '_')}.py")
    return sorted((one for path in paths for one in _read(path, exercise)), key=lambda one: one.name)


def find(exercise: str, name: str) -> Known:
    """One known answer. Raises ValueError where there is none of that name."""
    for one in answers_of(exercise):
        if one.name == name:
            return one
    raise ValueError(f"no known answer {name!r} of {exercise}")


def right_of(exercise: str) -> Known:
    """An honest answer. Raises ValueError where none is known."""
    for one in answers_of(exercise):
        if one.is_right:
            return one
    raise ValueError(f"no right answer of {exercise} is known: add a cell `# %% right_…`")


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
        raise ValueError('has unknown marks: write of="another_answer", from="page", or none')
    try:
        told = ast.get_docstring(ast.parse(cell.text))
    except SyntaxError as error:
        raise ValueError(f"is not Python: {error}") from None
    if not told:
        raise ValueError("has no docstring: say in a line what it does")
    return told


def _of_the_page(cell: percent.Cell, path: Path, exercise: str) -> str:
    """The page's solution, where a cell asks for it. Raises ValueError where the page has none."""
    if "from" not in cell.marks:
        return ""
    page = path.parents[1] / f"{path.parents[1].name}.py"
    wanted = [*cell.marks.get("also", "").split(), exercise]
    found = {one.marks.get("exercise"): one.text for one in percent.cells_of(page)}
    if missing := [one for one in wanted if one not in found]:
        raise ValueError(f'takes the solution of {page.name}, which has no cell exercise="{missing[0]}"')
    texts = [found[one] for one in wanted]
    return "\n\n" + SOLUTION.sub("", "\n\n".join(texts))


def _changed(cell: percent.Cell, whole: dict[str, str]) -> str:
    """The code of the answer that a cell changes, changed. Raises ValueError where that cannot be done."""
    base = cell.marks["of"]
    if base not in whole:
        raise ValueError(f"changes {base!r}, and there is no such whole answer above it: use one of {', '.join(whole)}")
    code, end, parts = _without_docstring(whole[base]), 0, []
    for old, new in _blocks(_without_docstring(cell.text)):
        places = [match.start() for match in re.finditer(f"^(?={re.escape(old)})", code, re.MULTILINE)]
        if len(places) != 1:
            raise ValueError(f"changes lines that occur {len(places)} times in {base}:\n{old}")
        if places[0] < end:
            raise ValueError(f"changes these lines after ones that follow them; put its blocks in order:\n{old}")
        parts.append(code[end : places[0]] + new)
        end = places[0] + len(old)
    return "".join(parts) + code[end:]


def _blocks(diff: str) -> Iterator[tuple[str, str]]:
    """Old and new lines of each block of a diff. Raises ValueError for one that changes nothing, or nothing known."""
    for block in re.split(r"\n{2,}", diff.strip("\n")):
        lines = [line.removeprefix("# ") if line != "#" else " " for line in block.split("\n")]
        if any(line[:1] not in ("-", "+", " ") for line in lines) or not block.startswith("#"):
            raise ValueError(f"lines of a diff begin with `# -`, `# +`, or `#` and two spaces:\n{block}")
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] in signs) for signs in (" -", " +"))
        if not old or old == new:
            raise ValueError(f"this block changes nothing, or names no line to change:\n{block}")
        yield old, new


def _without_docstring(source: str) -> str:
    first = ast.parse(source).body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return "".join(source.splitlines(keepends=True)[first.end_lineno if is_text else 0 :]).lstrip("\n")
