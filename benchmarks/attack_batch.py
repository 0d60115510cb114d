"""A batch of 200: every attack that fits into a notebook of week 1, plus honest submissions, graded as one class."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from autograder.authoring.course import ROOT
from benchmarks.row import Row, at_most

BATCH = 200
SEED = 602


def measure() -> list[Row]:
    """Grade once; every violated guarantee is printed to standard error."""
    sys.path.insert(0, str(ROOT / "tests" / "attacks"))
    from batch import CASES, grade_batch  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as folder:
        found = grade_batch(Path(folder), CASES, BATCH - len(CASES), SEED)
    promises = {
        "with points they have not earned": found.undeserved,
        "lost": found.lost,
        "left behind": found.left,
        "honest exercises graded differently than alone": found.harmed,
    }
    for line in (line for lines in promises.values() for line in lines):
        print(line, file=sys.stderr)
    kept = [
        at_most(f"{BATCH} submissions, {len(CASES)} attacks: {name}", len(lines), 0) for name, lines in promises.items()
    ]
    return [*kept, at_most("one submission of the batch, s", found.seconds / BATCH, 5)]
