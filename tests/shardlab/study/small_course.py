"""A course of two small weeks, with pages as released by the build."""

import json
from pathlib import Path
from random import Random

from nbformat import NotebookNode, v4
from random_study import exercise, first_page, given, named
from shardlab.study import page

WEEK, LATER = "week01_rings", "week02_buckets"


def write_page(course: Path, week: str, cells: list[NotebookNode]) -> None:
    """Write a page as the course releases it, including checksums."""
    for cell in cells:
        if facts := page.marks(cell):
            facts["checksum"] = page.checksum(cell)
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    page.write(page.page_path(course, week), page.text_of(v4.new_notebook(cells=cells, metadata=metadata)))


def cells_of_week_2() -> list[NotebookNode]:
    cells = named([given("# Week 2"), *exercise("four")])
    for cell in cells:
        if facts := page.marks(cell):
            facts["grade_id"] = facts["grade_id"].replace("week01", "week02")
            cell.id = facts["grade_id"]
    own = {"grade": True, "solution": True, "locked": False, "points": 2, "schema_version": 3, "task": False}
    written = v4.new_markdown_cell("*Your answer here.*", id="week02-interview")
    written.metadata = NotebookNode(nbgrader=NotebookNode(own | {"grade_id": "week02-interview"}))
    return [*cells, written]


def write_course(folder: Path) -> None:
    """Write both weeks, and hints for the first."""
    write_page(folder, WEEK, first_page(Random(0)))
    write_page(folder, LATER, cells_of_week_2())
    hints = {f"week01.{name}": ["look", "look there", "write this"] for name in ("one", "two", "three")}
    (folder / "hints.json").write_text(json.dumps(hints))
