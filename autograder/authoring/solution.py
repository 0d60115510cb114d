"""Write a week's page with its solutions."""

from __future__ import annotations

from pathlib import Path

import nbformat

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT

MARKS = ("### BEGIN SOLUTION", "### END SOLUTION")


def write(week: str, path: Path, root: Path = ROOT) -> Path:
    """Write the notebook of a week with its solutions, without the markers around them.

    Raises ValueError for an unknown week, or if this copy of the course has no solutions.
    """
    if not notebooks.source_path(week, root).is_file():
        raise ValueError(f"{root} has no solutions/: this copy of the course does not include them")
    notebook = notebooks.read_source(week, root)
    for cell in notebook.cells:
        cell.source = "\n".join(line for line in cell.source.split("\n") if line.strip() not in MARKS)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path
