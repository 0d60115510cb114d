"""Store the hints of all exercises in one file next to the notebooks, so that reading a hint runs no check."""

from __future__ import annotations

import json
from pathlib import Path

from autograder import weeks
from autograder.authoring.course import ROOT, pages


def path_of(root: Path = ROOT) -> Path:
    """Return where a course stores its hints: {"week01.exchange": ["first", "second", "third"]}."""
    return pages(root) / "hints.json"


def text() -> str:
    """Return what the file should contain, according to the current checks."""
    found = {check.exercise: list(check.hints) for checks in weeks.WEEKS.values() for check in checks if check.hints}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def are_stale(root: Path = ROOT) -> bool:
    """Return whether the file is missing or differs from the hints in the current checks."""
    path = path_of(root)
    return not path.is_file() or path.read_text(encoding="utf-8") != text()
