"""Targets for attackers on the host: two listeners, a gradebook and a secret, all checked afterwards."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.course import ROOT

SECRET = "a-secret-of-the-grader"
FILES = ["gradebook.db", "socket"]


@dataclass
class Honeypot:
    """`places` are the words between @ signs in an attack's source; `callers`, `scores` and `files` come later."""

    folder: Path
    places: dict[str, str]
    callers: int = 0
    scores: list[tuple] | None = None
    files: list[str] | None = None

    @property
    def is_untouched(self) -> bool:
        """Whether nobody connected, nothing was written and no score was changed."""
        return (self.callers, self.scores, self.files) == (0, [(1,)], FILES)


@contextmanager
def laid_out(folder: Path) -> Iterator[Honeypot]:
    """Set up the honeypot in a new `folder`; when the context ends, its findings are filled in."""
    folder.mkdir()
    with sqlite3.connect(folder / "gradebook.db") as base:
        base.execute("create table grade (manual_score)")
        base.execute("insert into grade values (1)")
    base.close()
    os.environ["SYS602_SECRET"] = SECRET
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as unix:
            unix.bind(str(folder / "socket"))
            unix.listen()
            pot = Honeypot(folder, _places(folder, listener.getsockname()[1]))
            yield pot
            pot.callers = sum(_was_called(one) for one in (listener, unix))
    finally:
        del os.environ["SYS602_SECRET"]
    with sqlite3.connect(folder / "gradebook.db") as base:
        pot.scores = base.execute("select * from grade").fetchall()
    base.close()
    pot.files = sorted(path.name for path in folder.iterdir())


def _places(folder: Path, port: int) -> dict[str, str]:
    return {
        "ROOT": str(ROOT),
        "HONEY": str(folder),
        "PORT": str(port),
        "SECRET": SECRET,
        "DEEP": "(" * 5000 + ")" * 5000,
        "NULL": "\0",
    }


def _was_called(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True
