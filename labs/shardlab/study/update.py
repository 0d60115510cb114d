"""Update pages without losing answers, and reset exercises; everything the learner wrote is kept somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from shardlab.study import page
from shardlab.study.folder import Folder, as_released
from shardlab.study.merge import merge


@dataclass(frozen=True)
class Updated:
    """The result of updating one week, one message per change; `backup` is the page before the update."""

    week: str
    told: list[str]
    backup: Path


def is_behind(folder: Folder, week: str) -> bool:
    """Whether the course's page differs from the one released to this folder last."""
    laid_out = folder.laid_out(week)
    given = page.page_path(folder.course, week)
    return not laid_out.is_file() or laid_out.read_bytes() != given.read_bytes()


def update(folder: Folder, week: str) -> Updated | None:
    """Update a learner's page to the course's and keep the answers; returns None if it is up to date.

    Raises ValueError if a page cannot be read, or if another program saved it meanwhile.
    """
    path = folder.notebook(week)
    new = _released(folder, week)
    if folder.laid_out(week).is_file() and not is_behind(folder, week):
        return None
    before = path.read_bytes() if path.is_file() else b""
    mine = page.read(path)
    old = page.read(folder.laid_out(week)) if folder.laid_out(week).is_file() else as_released(mine)
    merged = merge(mine.cells, old.cells, new.cells)
    result = NotebookNode(new | {"cells": merged.cells, "metadata": {**new.metadata, **mine.metadata}})
    backup = _put_away(path, path.parent / "backups" / path.name)
    if path.read_bytes() != before:
        raise ValueError(f"{path} was saved during the update: close it in JupyterLab, and run the update again")
    page.write(path, page.text_of(result))
    page.write(folder.laid_out(week), page.text_of(new))
    return Updated(week, merged.told, backup)


def reset_week(folder: Folder, week: str) -> Path:
    """Replace a week's page with a blank one; returns where the page with the answers was moved."""
    new = _released(folder, week)
    kept = _put_away(folder.notebook(week), folder.attempts / f"{week}.ipynb")
    page.write(folder.notebook(week), page.text_of(new))
    page.write(folder.laid_out(week), page.text_of(new))
    return kept


def reset_exercise(folder: Folder, exercise: str) -> Path | None:
    """Make one exercise blank and return the file with the old attempt; None if it was blank already.

    Raises ValueError if the learner's page or the course's has no such cell.
    """
    week = folder.week(exercise.partition(".")[0])
    mine = page.read(folder.notebook(week))
    blank, cell = answer_cell(_released(folder, week), exercise), answer_cell(mine, exercise)
    if cell.source == blank.source:
        return None
    ending = "py" if blank.cell_type == "code" else "md"
    kept = page.free(folder.attempts / f"{exercise}.{ending}")
    page.write(kept, cell.source + "\n")
    cell.source = blank.source
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    _put_away(folder.notebook(week), folder.notebook(week).parent / "backups" / f"{week}.ipynb")
    page.write(folder.notebook(week), page.text_of(mine))
    return kept


def answer_cell(notebook: NotebookNode, exercise: str) -> NotebookNode:
    """The answer cell of an exercise, the last one with its grade id; raises ValueError if there is none."""
    found = [
        cell for cell in notebook.cells if page.is_answer(cell) and page.exercise_id(page.name_of(cell)) == exercise
    ]
    if not found:
        raise ValueError(f"the page has no cell for {exercise}: `shardlab study update` restores deleted cells")
    return found[-1]


def _released(folder: Folder, week: str) -> NotebookNode:
    """The course's blank page; raises ValueError if somebody wrote answers into it, which would hide its blanks."""
    path = page.page_path(folder.course, week)
    given = page.read(path)
    if len(as_released(given).cells) < len(given.cells) or any(
        page.is_answer(cell) and not cell.source for cell in as_released(given).cells
    ):
        raise ValueError(f"{path} contains answers or was edited: restore the course's page (`git restore {path}`)")
    return given


def _put_away(path: Path, name: Path) -> Path:
    """Copy a file to the first unused numbered name."""
    if not path.is_file():
        raise ValueError(f"there is no notebook {path}: `shardlab study begin` creates it")
    kept = page.free(name)
    page.write(kept, path.read_bytes())
    return kept
