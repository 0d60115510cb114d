"""What was noted about a submission when it was collected."""

from __future__ import annotations

import json
from pathlib import Path


def read_collected(folder: Path) -> dict[str, str] | None:
    """What was noted when the submission in STUDENT/WEEK was collected; None when it came another way."""
    try:
        facts = json.loads((folder / "collected.json").read_text(encoding="utf-8"))
        return {key: facts[key] for key in ("lms", "id", "name", "late", "file", "sha256")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
