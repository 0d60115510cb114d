"""A rich table of the functions of the trainer that the learner has written."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from shardlab.own import shelf
from shardlab.own.names import PACKAGE
from shardlab.study.folder import Folder

WIDTH = 76  # characters that fit next to JupyterLab's file browser


def table(folder: Folder) -> Group:
    """One row per module of `mine`: how many functions are the learner's, and the exercises still to pass."""
    found = Table(title="Your own trainer", width=WIDTH)
    found.add_column("module", no_wrap=True)
    found.add_column("yours", justify="right", no_wrap=True)
    found.add_column("the course's, until you pass", overflow="fold")
    for module, rows in shelf.yours(folder).items():
        own, every = (sum(len(piece.names) for piece, is_own in rows if is_own or both) for both in (False, True))
        left = [piece for piece, is_own in rows if not is_own]
        to_pass = f"{left[0].week}: {', '.join(one.exercise.partition('.')[2] for one in left)}" if left else ""
        found.add_row(f"{PACKAGE}/{module}.py", f"{own} of {every}", to_pass)
    return Group(found, Text(summary(folder)))


def summary(folder: Folder) -> str:
    """One line with the number of functions that are the learner's."""
    rows = [row for module in shelf.yours(folder).values() for row in module]
    num = sum(len(piece.names) for piece, is_own in rows if is_own)
    return f"{num} of {sum(len(piece.names) for piece, _ in rows)} functions of your trainer are yours."
