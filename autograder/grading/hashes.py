"""SHA-256 hashes of everything that determines a verdict, so that later changes are detected."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

GRADER = Path(__file__).resolve().parents[1]


def checks_hash(week: str) -> str:
    """Return one hash of the source of a week's checks and of the judge: file names and contents, sorted by name."""
    own = (GRADER / "weeks").glob(f"{week.split('_', maxsplit=1)[0]}_*/*.py")
    shared = (GRADER / "checks").glob("*.py")
    whole = hashlib.sha256()
    for path in sorted([*own, *shared, GRADER / "judging" / "judge.py"]):
        data = path.read_bytes()
        whole.update(f"{path.relative_to(GRADER).as_posix()} {len(data)}\n".encode() + data)
    return whole.hexdigest()


def file_hash(path: Path) -> str:
    """Return the hash of a file's bytes, or an empty string if it is not a regular file."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(verdicts: dict[str, Any]) -> dict[str, Any]:
    """Add a hash that reveals manual edits. It is not a signature: anyone who edits the file can compute a new hash."""
    return verdicts | {"seal": _seal(verdicts)}


def is_sealed(verdicts: dict[str, Any]) -> bool:
    """Return whether verdicts are unchanged since they were sealed."""
    return verdicts.get("seal") == _seal({key: value for key, value in verdicts.items() if key != "seal"})


def _seal(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
