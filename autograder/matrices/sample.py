"""Which rows CI judges: others with every commit, the same ones when a commit is tested again."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def of_this_commit(name: str) -> Random:
    """Random numbers that the commit decides, or the day where there is no git."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        commit = datetime.date.today().isoformat()
    return Random(f"{name} {commit}")


def some(rng: Random, items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of the items, in their order."""
    chosen = sorted(rng.sample(range(len(items)), min(most, len(items))))
    return [items[place] for place in chosen]
