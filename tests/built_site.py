"""A built site for tests: every page, with the outputs of two weeks that run quickly."""

import os
import shutil
from pathlib import Path

import nbformat
from filelock import FileLock
from nbformat import NotebookNode
from shardlab import figures

from autograder.authoring import notebooks
from autograder.site.execute import execute_all
from autograder.site.write import write_site

WITH_OUTPUTS = ("week00_start", "week10_planning")  # the shortest week, and one that starts no ranks


def build(folder: Path) -> dict:
    """Write the site; return {week: the notebook that its page is made of}.

    The first process of a run that needs the site builds it, and the others copy it. Outputs are cached between runs.
    """
    own_folders = folder.parents[1]  # what `tmp_path_factory` made for this process
    shared = own_folders.parent if "PYTEST_XDIST_WORKER" in os.environ else own_folders
    weeks = notebooks.weeks()
    with FileLock(shared / "site.lock"):
        solved = {week: notebooks.read_source(week) for week in weeks} | execute_all(WITH_OUTPUTS)
        _animate(solved["week14_long_context"])
        if not (shared / "site").exists():
            write_site(solved, shared / "site-unfinished")
            (shared / "site-unfinished").rename(shared / "site")
    shutil.copytree(shared / "site", folder)
    return solved


def _animate(notebook: NotebookNode) -> None:
    """Give the page's animation its output, without running the rest of the page."""
    cell = next(cell for cell in notebook.cells if "figures.animate(" in cell.source)
    *before, last = cell.source.splitlines()
    space = {"figures": figures}
    exec("\n".join(before), space)
    shown = eval(last, space)
    cell.outputs = [
        nbformat.v4.new_output("execute_result", {"text/html": shown._repr_html_(), "text/plain": repr(shown)})
    ]
