"""The record that is written next to a submission when it is collected."""

from __future__ import annotations

import json
from pathlib import Path


def read_collected(folder: Path) -> dict[str, str] | None:
    """The record in STUDENT/WEEK; None if the submission arrived in another way."""
    try:
        facts = json.loads((folder / "collected.json").read_text(encoding="utf-8"))
        return {key: facts[key] for key in ("lms", "id", "name", "late", "file", "sha256")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
