"""nbgrader's gradebook. Problems with it are reported in one sentence, before a class is judged.

A write lock on the SQLite file, a server that does not answer and a file that is not a database all raise ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from autograder.authoring.course import load_config, nbgrader_programs
from autograder.reading.names import printable

NOTHING_LOST = "Nothing has been judged or written"


def url_of(root: Path) -> str:
    """Return the database URL of a course's gradebook."""
    return str(load_config(root).CourseDirectory.db_url)


def exists(root: Path) -> bool:
    """Return whether the gradebook exists; opening a missing SQLite file would create it."""
    parts = make_url(url_of(root))
    return parts.get_backend_name() != "sqlite" or Path(parts.database or "").exists()


@contextmanager
def opened(url: str) -> Iterator[Gradebook]:
    """Open the gradebook at `url`. Raises ValueError with a sentence when it cannot be read or written."""
    try:
        with nbgrader_programs(), Gradebook(url) as gradebook:
            yield gradebook
    except (SQLAlchemyError, OSError, ImportError) as error:
        raise ValueError(_sentence(url, error)) from error


def trouble(url: str, error: BaseException) -> str:
    """Return a sentence about the gradebook if it caused the failure of an nbgrader step, else an empty string."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    found = next((one for one in chain if isinstance(one, DBAPIError)), None)
    return _sentence(url, found) if found is not None else ""


def _sentence(url: str, error: Exception) -> str:
    shown = make_url(url).render_as_string(hide_password=True)
    said = printable(str(getattr(error, "orig", None) or error))[:200]
    if "locked" in said:
        remedy = "another program is writing to it: close that program, or wait until it has finished"
    elif make_url(url).get_backend_name() == "sqlite":
        remedy = "check that the file is a gradebook and that you can write to it and its folder"
    else:
        remedy = "check that the server is running and that the database exists and uses UTF-8"
    return f"the gradebook {shown} cannot be used ({said}): {remedy}, then run the same command again"


def prepare(week: str, released: NotebookNode, url: str) -> None:
    """Check that the gradebook is writable and that the week has the same cells as when it was last graded.

    Raises ValueError with a one-sentence reason.
    """
    with opened(url) as gradebook:
        gradebook.db.execute(text("UPDATE course SET id = id"))  # takes the lock that every later step needs
        gradebook.db.rollback()
        before, graded = _cells_in(gradebook, week)
    now = {cell.metadata.nbgrader.grade_id for cell in released.cells if "nbgrader" in cell.metadata}
    if graded and before != now:
        changes = [f"{len(names)} {what} ({', '.join(sorted(names))})" for what, names in
                   (("added", now - before), ("removed", before - now)) if names]  # fmt: skip
        raise ValueError(
            f"the cells of {week} have changed since {graded} submissions of it were graded: {' and '.join(changes)}. "
            f"{NOTHING_LOST}. Undo the change; or back up the gradebook, remove the week from it with "
            f"`nbgrader db assignment remove {week} --force` (this also deletes its manual grades) and grade again"
        )


def _cells_in(gradebook: Gradebook, week: str) -> tuple[set[str], int]:
    """Return the names of a week's cells in the gradebook, and how many submissions were graded with them."""
    try:
        notebook: Any = gradebook.find_notebook(week, week)
    except MissingEntry:
        return set(), 0
    return {cell.name for cell in notebook.source_cells}, len(notebook.submissions)


def enter_due_date(week: str, due: datetime, url: str) -> None:
    """Write a due date with a time zone to the gradebook."""
    changed: Any = {"duedate": due}
    with opened(url) as gradebook:
        gradebook.update_or_create_assignment(week, **changed)
