"""Share one open gradebook for a whole class. By default each part of nbgrader's steps opens its own: ten per student,
with one transaction per cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from nbgrader.api import Authenticator, Gradebook
from nbgrader.converters import autograde
from nbgrader.preprocessors import getgrades, latesubmissions, overwritecells, saveautogrades
from sqlalchemy.engine import Connection
from sqlalchemy.orm import scoped_session, sessionmaker

from autograder.grading import nbgrader_bridge, people

USERS: tuple[Any, ...] = (
    autograde,
    overwritecells,
    saveautogrades,
    latesubmissions,
    getgrades,
    nbgrader_bridge,
    people,
)


@contextmanager
def shared_gradebook(db_url: str) -> Iterator[Connection]:
    """Give every user of the gradebook the same connection. Nothing is written outside the caller's transaction:

    >>> with shared_gradebook(db_url) as connection, connection.begin():
    ...     step.run("ada")
    """
    with Gradebook(db_url) as gradebook, gradebook.engine.connect() as connection:
        sessions = sessionmaker(bind=connection, future=True, join_transaction_mode="rollback_only")

        def opened(_: str, course_id: str = "default_course", authenticator: Authenticator | None = None) -> Gradebook:
            one = copy(gradebook)
            one.db, one.course_id, one.authenticator = scoped_session(sessions), course_id, authenticator
            one.check_course(course_id=course_id)
            return one

        try:
            _hand_out(opened)
            yield connection
        finally:
            _hand_out(Gradebook)


def _hand_out(opens: Any) -> None:
    for module in USERS:
        module.Gradebook = opens
