"""Write the home page as a file, `start.ipynb`, with its current content, to be read before any cell runs."""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode, v4

from shardlab.home.facts import home_of
from shardlab.home.live import bundle, text_of
from shardlab.home.shown import commands
from shardlab.study import page
from shardlab.study.folder import Folder
from shardlab.study.trouble import TROUBLE

CELL = "start-home"
OLD_CELL = "start-panel"  # in pages of version 1.0.0
_GIVEN = Path(__file__).with_name("start_page.json")


def write_start(folder: Folder) -> None:
    """Create `start.ipynb`, or bring the output of its home cell up to date; the learner's own cells are unchanged.

    A page from version 1.0.0 is moved to `attempts/`. A page that cannot be read, or has no home cell, is left as it
    is. If the course's own pages are broken, the page is written without content; running its cell says why.
    """
    path = folder.path / "start.ipynb"
    try:
        before = page.read(path) if path.exists() else None
    except TROUBLE:
        return
    ids = {cell.get("id") for cell in before.cells} if before else set()
    if before and OLD_CELL in ids:
        page.write(page.free(folder.attempts / path.name), path.read_bytes())
        before = None
    elif before and CELL not in ids:
        return
    text = page.text_of(_with_content(folder, before or page.read(_GIVEN)))
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        page.write(path, text)


def _with_content(folder: Folder, notebook: NotebookNode) -> NotebookNode:
    """Set the output of the home cell, and return the notebook."""
    try:
        home = home_of(folder)
        outputs = [v4.new_output("display_data", bundle(home, text_of(folder), commands(home.next)))]
    except TROUBLE:
        outputs = []
    for cell in notebook.cells:
        if cell.get("id") == CELL:
            cell.execution_count, cell.outputs = None, outputs
    return notebook
