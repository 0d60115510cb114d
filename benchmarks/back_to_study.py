"""A learner returns after a week: `shardlab study`, then `shardlab study update`, with a new version of every page."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import nbformat
from shardlab.study import page, records
from shardlab.study.folder import begin

from benchmarks.row import Row, at_most

ROUNDS, CHECKS = 3, 2000
WORDS = "\n\nIn other words."


def measure() -> list[Row]:
    """Set up the course, record a term's checks, and return three times, each time to newer pages."""
    with tempfile.TemporaryDirectory() as top:
        folder, _ = begin(Path(top, "work"))
        names, began = list(folder.exercises()), datetime.now(UTC) - timedelta(days=90)
        for number in range(CHECKS):
            when = began + timedelta(hours=number)
            records.note("check", at=when, path=folder.path, exercise=names[number % len(names)], points=1, answer="a")
        seconds = []
        for _ in range(ROUNDS):
            for week in folder.weeks():
                _reword(folder.laid_out(week))
            start = time.perf_counter()
            for command in ([], ["update"]):
                program = [sys.executable, "-c", "from shardlab.commands.cli import app; app()", "study"]
                subprocess.run([*program, "--folder", str(folder.path), *command], check=True, capture_output=True)
            seconds.append(time.perf_counter() - start)
    return [at_most("back to the study after a week, s", median(seconds), 10)]


def _reword(path: Path) -> None:
    """Make the local page an older version: change the text of its first cell."""
    notebook = nbformat.read(path, 4)
    first = notebook.cells[0]
    first.source += WORDS
    first.id = page.content_id(first.cell_type, 1, first.source)
    page.write(path, page.text_of(notebook))
