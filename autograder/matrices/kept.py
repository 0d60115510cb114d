"""Rows of a matrix that takes hours, kept as JSON lines so that a run can be resumed.

The key of a row covers everything that determines it: a row is reused only while its answer, the checks and the grader
are unchanged.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import json
import os
import tokenize
from collections.abc import Collection
from pathlib import Path
from typing import Any

from autograder.jobs.statements import PARSING

AUTOGRADER = Path(__file__).parents[1]
LABS = AUTOGRADER.parent / "labs" / "shardlab"
DECIDE = ("reading/cell_text.py", "reading/program.py", "judging/judge.py", "sandboxes/zygote.py")
BUILD = AUTOGRADER.parent / "build"
Row = dict[str, Any]


def kept_folder() -> Path:
    """The folder for rows and summaries of long tables: build/, or the folder named by KEPT_ROWS."""
    found = Path(os.environ.get("KEPT_ROWS") or BUILD)
    found.mkdir(parents=True, exist_ok=True)
    return found


class RowFile:
    """The rows of one file by key; each row is written as soon as it is known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [_row(line) for line in lines]
        self._rows: dict[str, Row] = {row["key"]: row for row in rows if row is not None}
        if None in rows:
            self._write()

    def get(self, key: str) -> Row | None:
        """The row with this key, or None."""
        return self._rows.get(key)

    def rows(self) -> list[Row]:
        """All rows, in the file's order."""
        return list(self._rows.values())

    def add(self, row: Row) -> None:
        """Add a row in memory and at the end of the file."""
        self._rows[row["key"]] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(_line(row))

    def settle(self, weeks: Collection[str], keys: Collection[str]) -> None:
        """Rewrite the file, sorted, without the rows of these weeks whose keys are not in `keys`."""
        rows = [row for key, row in self._rows.items() if key in keys or row["exercise"].split(".")[0] not in weeks]
        rows.sort(key=lambda row: (row["exercise"], row["answer"], row.get("forgery", "")))
        self._rows = {row["key"]: row for row in rows}
        self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(_line(row) for row in self._rows.values()))


def _line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _row(line: str) -> Row | None:
    """Parse the row of a line; None for an incomplete line, which an interrupted run leaves."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def key_of(*texts: str) -> str:
    """A short hash of exactly these texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


@functools.cache
def grader_of(week: str) -> str:
    """A short hash of everything that determines the points of a week's answers: checks, judge, sandbox, meter, ranks.

    Comments and docstrings do not count, so they may be rewritten.
    """
    files = [
        *(AUTOGRADER / "checks").glob("*.py"),
        *(AUTOGRADER / "weeks").glob(f"{week}_*/*.py"),
        *(AUTOGRADER / "jobs").glob("*.py"),
        *(AUTOGRADER / name for name in DECIDE),
        *(path for part in ("meter", "ranks") for path in (LABS / part).glob("*.py")),
    ]
    return key_of(*(without_words(path.read_text()) for path in sorted(files)))


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Span = tuple[int, int, int, int, str]  # first line and column, last line and column, replacement


def without_words(source: str) -> str:
    """The lines of a program without comments, docstrings and empty lines; other string literals stay.

    The result is the same in every version of Python, unlike the output of `ast`. Raises SyntaxError for invalid code.
    """
    lines = source.splitlines()
    spans = [*_comments(source), *_docstrings(source, lines)]
    for first, begin, last, end, instead in sorted(spans, reverse=True):  # from the end: earlier places stay valid
        kept = lines[first][:begin] + instead + lines[last][end:]
        lines[first : last + 1] = [kept]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _comments(source: str) -> list[Span]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        (token.start[0] - 1, token.start[1], token.end[0] - 1, token.end[1], "")
        for token in tokens
        if token.type == tokenize.COMMENT
    ]


def _docstrings(source: str, lines: list[str]) -> list[Span]:
    found = []
    with PARSING:
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            first, last = text.lineno - 1, (text.end_lineno or text.lineno) - 1
            begin, end = _column(lines[first], text.col_offset), _column(lines[last], text.end_col_offset)
            found.append((first, begin, last, end, "pass" if len(node.body) == 1 else ""))
    return found


def _column(line: str, offset: int | None) -> int:
    """Convert an offset of `ast`, which counts UTF-8 bytes, to a column."""
    return len(line.encode()[: offset or 0].decode())
