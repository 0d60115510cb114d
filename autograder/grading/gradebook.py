"""nbgrader's gradebook: whatever is wrong with it is one sentence, and it is prepared before a class is judged.

A write lock on the SQLite file, a server that does not answer and a file that is not a database all end as ValueError.
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
    """The address of a course's gradebook."""
    return str(load_config(root).CourseDirectory.db_url)


def exists(root: Path) -> bool:
    """Whether the gradebook exists; opening a missing SQLite file would create it."""
    parts = make_url(url_of(root))
    return parts.get_backend_name() != "sqlite" or Path(parts.database or "").exists()


@contextmanager
def opened(url: str) -> Iterator[Gradebook]:
    """The gradebook at `url`. Raises ValueError with a sentence when it cannot be read or written."""
    try:
        with nbgrader_programs(), Gradebook(url) as gradebook:
            yield gradebook
    except (SQLAlchemyError, OSError, ImportError) as error:
        raise ValueError(_sentence(url, error)) from error


def trouble(url: str, error: BaseException) -> str:
    """The sentence about the gradebook, if it is what made one of nbgrader's steps fail; else empty."""
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
        remedy = "another program is writing to it: close that program, or wait until it has ended"
    elif make_url(url).get_backend_name() == "sqlite":
        remedy = "check that the file is a gradebook and that you can write to it and its folder"
    else:
        remedy = "check that the server runs and that the database exists and is UTF-8"
    return f"the gradebook {shown} cannot be used ({said}): {remedy}, then run the same command again"


def prepare(week: str, released: NotebookNode, url: str) -> None:
    """See that the gradebook can be written, and that the week's cells are those under which it was graded before.

    Raises ValueError with a sentence.
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
            f"{NOTHING_LOST}. Take the change back; or back up the gradebook, remove the week from it with "
            f"`nbgrader db assignment remove {week} --force` (this deletes its grades by hand too) and grade again"
        )


def _cells_in(gradebook: Gradebook, week: str) -> tuple[set[str], int]:
    """The names of a week's cells in the gradebook, and how many submissions have been graded with them."""
    try:
        notebook: Any = gradebook.find_notebook(week, week)
    except MissingEntry:
        return set(), 0
    return {cell.name for cell in notebook.source_cells}, len(notebook.submissions)


def enter_due_date(week: str, due: datetime, url: str) -> None:
    """Write a due date, with its zone, into the gradebook."""
    changed: Any = {"duedate": due}
    with opened(url) as gradebook:
        gradebook.update_or_create_assignment(week, **changed)
