"""What a verdict rests on, as SHA-256 hashes, so that a change of any of it can be seen later."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

GRADER = Path(__file__).resolve().parents[1]


def checks_hash(week: str) -> str:
    """One hash over the source of a week's checks and of the judge: file names and bytes, by name."""
    own = (GRADER / "weeks").glob(f"{week.split('_', maxsplit=1)[0]}_*/*.py")
    shared = (GRADER / "checks").glob("*.py")
    whole = hashlib.sha256()
    for path in sorted([*own, *shared, GRADER / "judging" / "judge.py"]):
        data = path.read_bytes()
        whole.update(f"{path.relative_to(GRADER).as_posix()} {len(data)}\n".encode() + data)
    return whole.hexdigest()


def file_hash(path: Path) -> str:
    """The hash of a file's bytes; empty where there is no regular file."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(verdicts: dict[str, Any]) -> dict[str, Any]:
    """Verdicts with a hash over themselves: an edit by hand shows. Not a signature: whoever edits can seal again."""
    return verdicts | {"seal": _seal(verdicts)}


def is_sealed(verdicts: dict[str, Any]) -> bool:
    """Whether verdicts are as they were when they were sealed."""
    return verdicts.get("seal") == _seal({key: value for key, value in verdicts.items() if key != "seal"})


def _seal(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
