"""Records of a learner's checks, hints, solutions, cards and resets: one line of JSON per event.

They stay in the learner's folder. Nothing is recorded outside one, or while nbgrader validates or grades a notebook.
Learners may read and edit the file; no grade depends on it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shardlab.study.folder import NAME, around

BY_NBGRADER = ("NBGRADER_EXECUTION", "NBGRADER_VALIDATING")  # variables that nbgrader sets while it runs a notebook
Record = dict[str, Any]


def note(event: str, *, at: datetime | None = None, path: Path | None = None, **facts: Any) -> str:
    """Record an event and return "", or a message that says why it was not recorded; never raises.

    path: the learner's folder, or None for the one that contains the working folder, if any.
    """
    try:
        chosen = path or around(Path.cwd())
        if chosen is None or any(name in os.environ for name in BY_NBGRADER):
            return ""
        when = (at or datetime.now(UTC)).isoformat(timespec="seconds")
        _append(chosen / NAME / "records.jsonl", json.dumps({"at": when, "event": event, **facts}, ensure_ascii=False))
    except Exception as error:
        return f"This was not recorded for `shardlab study`: {type(error).__name__}: {error}"
    return ""


def _append(path: Path, line: str) -> None:
    """Append a line in one write, so that lines of two notebooks never mix; ends an incomplete last line first."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        end = os.fstat(descriptor).st_size
        torn = end > 0 and os.pread(descriptor, 1, end - 1) != b"\n"
        data = f"{chr(10) if torn else ''}{line}\n".encode()
        if os.write(descriptor, data) < len(data):
            raise OSError("the disk is full")
    finally:
        os.close(descriptor)


def read(path: Path) -> tuple[list[Record], int]:
    """The records of a file in order, and how many of its lines are unreadable."""
    if not path.is_file():
        return [], 0
    records, unreadable = [], 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
            datetime.fromisoformat(record["at"]).astimezone(UTC)
            records.append({"event": "", "exercise": ""} | record)
        except (ValueError, KeyError, TypeError, RecursionError):
            unreadable += bool(line.strip())
    return records, unreadable


def when(record: Record) -> datetime:
    """The time of a record."""
    return datetime.fromisoformat(record["at"]).astimezone(UTC)


def digest(answers: Sequence[Any]) -> str:
    """A digest that is equal for equal answers, from the source of functions and the repr of anything else."""
    texts = []
    for answer in answers:
        try:
            texts.append(inspect.getsource(answer))
        except (OSError, TypeError):
            texts.append(repr(answer))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
