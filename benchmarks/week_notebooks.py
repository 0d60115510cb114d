"""Execute every week with its solutions from top to bottom, each in a fresh kernel."""

from __future__ import annotations

import sys
import time

from autograder.authoring import notebooks
from autograder.site.execute import client_of
from benchmarks.row import Row, at_most

EACH, TOGETHER = 60, 15 * 60  # limits in seconds


def measure() -> list[Row]:
    """Return seconds from kernel start to the end of the last cell; a cell that raises fails the benchmark."""
    rows = []
    for week in notebooks.weeks():
        seconds = seconds_of(week)
        rows.append(at_most(f"{week} from top to bottom, s", seconds, EACH))
        print(f"{week}: {seconds:.1f} s", file=sys.stderr, flush=True)
    together = sum(row.ours for row in rows)
    return [*rows, at_most(f"all {len(rows)} weeks, s", together, TOGETHER)]


def seconds_of(week: str) -> float:
    """Return how long one week takes."""
    client = client_of(week, notebooks.read_source(week), cell_seconds=120)
    began = time.perf_counter()
    client.execute()
    return time.perf_counter() - began
