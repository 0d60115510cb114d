"""Store a submission where the course expects it, wherever it came from, and report the outcome.

STUDENT/WEEK/WEEK.ipynb      the notebook, byte for byte as submitted
STUDENT/WEEK/timestamp.txt   when it was submitted, as far as its source says
STUDENT/WEEK/submission_secret.txt    names the feedback page in the exchange, for submissions from there
STUDENT/WEEK/collected.json  where it came from: the source's name for the student, the file's name there, its hash
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autograder.reading import ingest


@dataclass(frozen=True)
class Line:
    """The outcome for one file of a source. `outcome`: collected, replaced, unchanged, kept, left out."""

    file: str
    student: str
    outcome: str
    sentence: str = ""


@dataclass(frozen=True)
class HandedIn:
    """One student's notebook: `id` and `name` come from the source; `lms` is canvas, moodle, git or exchange."""

    student: str
    lms: str
    id: str
    name: str
    file: str
    data: bytes
    time: datetime
    late: bool = False
    note: str = ""
    secret: str = ""


def place(one: HandedIn, week: str, submitted: Path, *, replace: bool) -> Line:
    """Write one submission unless a different one exists; a broken notebook is stored too."""
    folder = submitted / one.student / week
    target = folder / f"{week}.ipynb"
    if folder.parent.is_symlink() or folder.is_symlink() or target.is_symlink():
        return Line(one.file, one.student, "kept", f"{target} is behind a symbolic link: nothing was written there.")
    outcome = "collected"
    if target.exists():
        if target.read_bytes() == one.data:
            return Line(one.file, one.student, "unchanged")
        if not replace:
            sentence = f"{one.student} has another notebook in {folder}, which was kept: overwrite it with --replace."
            return Line(one.file, one.student, "kept", sentence)
        outcome = "replaced"
    facts = {"lms": one.lms, "id": one.id, "name": one.name, "late": one.late, "file": one.file}
    facts["sha256"] = hashlib.sha256(one.data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    _put(folder / "collected.json", json.dumps(facts, indent=1).encode())
    _put(folder / "timestamp.txt", one.time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC\n").encode())
    (folder / "submission_secret.txt").unlink(missing_ok=True)
    if one.secret:
        _put(folder / "submission_secret.txt", one.secret.encode())
    _put(target, one.data)
    return Line(one.file, one.student, outcome, " ".join(filter(None, [_unreadable(one.data), one.note])))


def _unreadable(data: bytes) -> str:
    try:
        ingest.parse(data)
    except ingest.NotReadable as reason:
        return f"It cannot be read, as the verdict will also say: {reason}."
    return ""


def _put(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(data)
    draft.replace(path)
