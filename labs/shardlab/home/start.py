"""Write the home page as a file, `start.ipynb`, with its current content, so that it is there before any cell runs."""

from __future__ import annotations

from contextlib import suppress
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

    A page from version 1.0.0 is moved to `attempts/`. A page that cannot be read is left as it is.
    """
    path = folder.path / "start.ipynb"
    try:
        notebook = page.read(path if path.exists() else _GIVEN)
        ids = {cell.get("id") for cell in notebook.cells}
        if OLD_CELL in ids:
            page.write(page.free(folder.attempts / path.name), path.read_bytes())
            notebook = page.read(_GIVEN)
        elif CELL not in ids:
            return
        text = page.text_of(_with_content(folder, notebook))
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            page.write(path, text)
    except TROUBLE:
        return
    _trust(notebook)


def _with_content(folder: Folder, notebook: NotebookNode) -> NotebookNode:
    """Set the output of the home cell, and return the notebook."""
    home = home_of(folder)
    data = bundle(home, text_of(folder), commands(home.next))
    for cell in notebook.cells:
        if cell.get("id") == CELL:
            cell.execution_count, cell.outputs = None, [v4.new_output("display_data", data)]
    return notebook


def _trust(notebook: NotebookNode) -> None:
    """Sign the page, as Jupyter does for outputs made on this machine, if no other cell has an output."""
    if any(cell.get("outputs") for cell in notebook.cells if cell.get("id") != CELL):
        return
    with suppress(Exception):  # without a signature, JupyterLab removes some styles, but shows the page
        from nbformat.sign import NotebookNotary

        NotebookNotary().sign(notebook)
