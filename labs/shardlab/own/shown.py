"""Which parts of the trainer are the learner's, as a rich table."""

from __future__ import annotations

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from shardlab.own import shelf
from shardlab.own.names import PACKAGE
from shardlab.own.pieces import Piece
from shardlab.study.folder import Folder, find


def show() -> None:
    """Print the table for the learner's folder around this page; a sentence where there is none."""
    try:
        Console(highlight=False).print(table(find()))
    except ValueError as error:
        print(error)


def table(folder: Folder) -> Group:
    """A row for each module of `mine`: the functions that are the learner's, and the exercises still to pass."""
    found = Table(title="Your own trainer")
    for name in ("module", "yours", "the course's, until you pass"):
        found.add_column(name, overflow="fold")
    for module, rows in shelf.yours(folder).items():
        left = [piece.exercise for piece, is_own in rows if not is_own]
        found.add_row(f"{PACKAGE}/{module}.py", _functions([piece for piece, own in rows if own]), ", ".join(left))
    return Group(found, Text(summary(folder)))


def summary(folder: Folder) -> str:
    """How many functions are the learner's, in one line."""
    rows = [row for module in shelf.yours(folder).values() for row in module]
    num = sum(len(piece.names) for piece, is_own in rows if is_own)
    return f"{num} of {sum(len(piece.names) for piece, _ in rows)} functions of your trainer are yours."


def _functions(own: list[Piece]) -> str:
    return ", ".join(name for piece in own for name in piece.names)
