"""Week 1 with its solutions, executed top to bottom in a kernel of its own."""

from __future__ import annotations

import time

from nbclient import NotebookClient

from autograder import notebooks
from benchmarks.row import Row, at_most

WEEK = "week01_collectives"


def measure() -> list[Row]:
    """Seconds from the start of the kernel to the end of the last cell; a cell that raises fails the benchmark."""
    notebook = notebooks.read_source(WEEK)
    folder = str(notebooks.source_path(WEEK).parent)
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}})
    began = time.perf_counter()
    client.execute()
    return [at_most("week 1 from top to bottom, s", time.perf_counter() - began, 60)]
