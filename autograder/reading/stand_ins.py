"""The course's answers as modules of `mine`, packed in one file in course/; they replace answers not written yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from shardlab.own.blocks import Blocks, course_blocks, module_source, packed, unpacked
from shardlab.own.loader import course_source
from shardlab.own.names import PACKAGE
from shardlab.own.pieces import GIVEN, PIECES, pieces
from shardlab.study.page import KINDS

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT, pages
from autograder.reading.own import block_of


def path_of(root: Path = ROOT) -> Path:
    """The path of the packed file."""
    return pages(root) / "own.json"


def from_solutions(root: Path = ROOT) -> Blocks:
    """The blocks of all pieces, from solutions/. Raises NotExportable for a solution that `mine` cannot use."""
    cells: dict[str, list[str]] = {}
    for piece in pieces():
        if piece.week not in cells:
            page = notebooks.read_source(piece.week, root)
            cells[piece.week] = [cell.source for cell in page.cells if cell.cell_type == "code"]
    return {piece.exercise: block_of(piece, cells[piece.week]) for piece in pieces()}


def sources_of(blocks: Blocks) -> dict[str, str]:
    """{module: source} of the modules built from these blocks, and of the given modules."""
    modules = {name: {key: blocks[key] for key in PIECES[name] if key in blocks} for name in PIECES}
    sources = {name: module_source(name, own) for name, own in modules.items() if own}
    return sources | {name: course_source(name) for name in GIVEN}


def write_source(folder: Path, root: Path = ROOT) -> Path:
    """Write the course's own `mine` as plain files into a folder; returns the package's path."""
    target = folder / PACKAGE
    target.mkdir(parents=True, exist_ok=True)
    for name, source in {"__init__": "", **sources_of(from_solutions(root))}.items():
        (target / f"{name}.py").write_text(source, encoding="utf-8")
    return target


def text(root: Path = ROOT) -> str:
    """The text of the packed file for the current solutions."""
    return packed(from_solutions(root))


def are_stale(root: Path = ROOT) -> bool:
    """Whether the file's answers differ from the solutions. Compares answers: compressed bytes vary by machine."""
    try:
        return unpacked(path_of(root).read_text(encoding="utf-8")) != from_solutions(root)
    except (OSError, ValueError):
        return True


ASSEMBLES = "week15"
_IMPORTS_MINE = re.compile(r"\b(from|import)\s+mine\b")


def with_mine(answer: Mapping[str, Any], exercise: str) -> dict[str, Any]:
    """Add the modules of `mine` that an answer may import, if it imports any.

    exercise: "week03.zero1", or any name that begins with the page's. The student's own modules, submitted with the
    page, are used from the week that assembles them; earlier pages are graded without them.
    """
    kept = {key: value for key, value in answer.items() if key != "own"}
    if not imports_mine(answer):
        return kept
    own = {"own": answer["own"]} if answer.get("own") and _place(exercise) >= _place(ASSEMBLES) else {}
    return kept | {"modules": before(exercise)} | own


def imports_mine(answer: Mapping[str, Any]) -> bool:
    """Whether an answer's cells import `mine`, or its pickle refers to it."""
    if "cells" in answer:
        return any(_IMPORTS_MINE.search(cell[1]) for cell in answer["cells"])
    return any(f"mine.{name}".encode() in answer.get("pickle", b"") for name in (*PIECES, *GIVEN))


@lru_cache
def before(exercise: str, root: Path = ROOT) -> dict[str, str]:
    """{module: source} of `mine` for grading an exercise: the course's answers to all earlier exercises.

    This way a mistake costs points only once, and an exercise cannot import its own answer.
    """
    order = _on_page(_place(exercise)[1], root)
    every = course_blocks(pages(root))
    return sources_of({name: one for name, one in every.items() if _comes_before(name, exercise, order)})


def _comes_before(piece: str, exercise: str, order: list[str]) -> bool:
    """Whether the piece's exercise is on an earlier page, or earlier on the same page."""
    if _place(piece) != _place(exercise):
        return _place(piece) < _place(exercise)
    return exercise in order and order.index(piece) < order.index(exercise)


def _place(name: str) -> tuple[int, str]:
    """The place of a page in the course's order, from its name or that of an exercise or cell: (kind, page)."""
    page = re.split(r"[._ -]", name, maxsplit=1)[0]
    return next((number for number, kind in enumerate(KINDS) if page.startswith(kind)), len(KINDS)), page


def _on_page(week: str, root: Path) -> list[str]:
    """The exercises of a page, in order."""
    cells = notebooks.release(week, root).cells
    names = [notebooks.exercise_id(cell.metadata.nbgrader.grade_id) for cell in cells if "nbgrader" in cell.metadata]
    return list(dict.fromkeys(names))
