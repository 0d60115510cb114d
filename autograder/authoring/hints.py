"""The hints of all exercises as one file beside the students' notebooks, so that reading one needs no check."""

from __future__ import annotations

import json
from pathlib import Path

from autograder import weeks
from autograder.authoring.course import ROOT, pages


def path_of(root: Path = ROOT) -> Path:
    """Where the hints of a course lie: {"week01.exchange": ["first", "second", "third"]}."""
    return pages(root) / "hints.json"


def text() -> str:
    """The file that the checks give now."""
    found = {check.exercise: list(check.hints) for checks in weeks.WEEKS.values() for check in checks if check.hints}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def are_stale(root: Path = ROOT) -> bool:
    """Whether the file is not what the checks give now."""
    path = path_of(root)
    return not path.is_file() or path.read_text(encoding="utf-8") != text()
