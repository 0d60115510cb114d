"""Add a passing answer to the learner's `mine/` and report it in one line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nbformat import NotebookNode
from shardlab.own import shelf
from shardlab.own.blocks import Clash
from shardlab.own.pieces import Piece, piece_of, pieces
from shardlab.study import page, progress, records
from shardlab.study.folder import Folder, around, find

from autograder.reading.own import NotExportable, block_of


def keep_passed(exercise: str) -> str:
    """Add a passed answer to `mine/`; returns a line for the learner, "" if it adds nothing. Never raises."""
    piece, place = piece_of(exercise), around(Path.cwd())
    if piece is None or place is None or any(name in os.environ for name in records.BY_NBGRADER):
        return ""
    cells = _cells_run()
    try:
        return keep(find(place), piece, cells) if cells else ""
    except ValueError as error:
        return f"Not in mine/ yet: {error}"


def keep(folder: Folder, piece: Piece, cells: Sequence[str]) -> str:
    """Write one piece from a page's cells into `mine/`; returns a line that says so or why it failed."""
    try:
        done = shelf.keep(folder, piece, block_of(piece, cells))
    except (NotExportable, Clash) as error:
        return f"Not in mine/ yet: {error}."
    except (ValueError, OSError) as error:
        return f"Not in mine/ yet: {error}"
    line = f"Added your {', '.join(done.names)} to mine/{done.path.name}."
    if not done.backups:
        return line
    copies = ", ".join(str(path.relative_to(folder.path)) for path in done.backups)
    return f"{line} Your manual edits are saved in {copies}."


def collect(folder: Folder) -> list[str]:
    """Rebuild `mine/` from the learner's saved pages: every exercise that has passed since its last reset."""
    standing = progress.standings(folder.exercises(), records.read(folder.records)[0])
    lines, sources = [], dict[str, list[str]]()
    for piece in pieces():
        if piece.exercise not in standing or not standing[piece.exercise].is_right:
            continue
        if piece.week not in sources:
            path = folder.notebook(folder.week(piece.week))
            sources[piece.week] = _code_of(page.read(path)) if path.is_file() else []
        lines.append(keep(folder, piece, sources[piece.week]))
    return lines


def _code_of(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def _cells_run() -> list[str]:
    """The cells that this kernel has run, in order; empty outside of a notebook."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return [str(one) for one in shell.user_ns.get("In", [])] if shell is not None else []
