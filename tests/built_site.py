"""A built site for tests: every page, with the outputs of two weeks that run quickly."""

import os
import shutil
from pathlib import Path
from typing import Any

import nbformat
from filelock import FileLock
from nbformat import NotebookNode

from autograder.authoring import notebooks
from autograder.site.execute import execute_all
from autograder.site.write import write_site

WITH_OUTPUTS = ("week00_start", "week10_planning")  # the shortest week, and one that starts no ranks
ANIMATED = {"week04_fsdp": "gather_plan", "week12_expert_parallel": "", "week14_long_context": ""}  # an answer it needs


def build(folder: Path) -> dict:
    """Write the site; return {week: the notebook that its page is made of}.

    The first process of a run that needs the site builds it, and the others copy it. Outputs are cached between runs.
    """
    own_folders = folder.parents[1]  # what `tmp_path_factory` made for this process
    shared = own_folders.parent if "PYTEST_XDIST_WORKER" in os.environ else own_folders
    weeks = notebooks.weeks()
    with FileLock(shared / "site.lock"):
        solved = {week: notebooks.read_source(week) for week in weeks} | execute_all(WITH_OUTPUTS)
        for week, name in ANIMATED.items():
            _animate(solved[week], name)
        if not (shared / "site").exists():
            write_site(solved, shared / "site-unfinished")
            (shared / "site-unfinished").rename(shared / "site")
    shutil.copytree(shared / "site", folder)
    return solved


def _animate(notebook: NotebookNode, name: str) -> None:
    """Give the page's animation its output; of the rest, only imports and the function `name` run."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    cell = next(one for one in code if "figures.animate(" in one.source)
    *before, last = cell.source.splitlines()
    space: dict[str, Any] = {}
    for source in (
        code[0].source,
        *(one.source for one in code if name and f"def {name}(" in one.source),
        "\n".join(before),
    ):
        exec(source, space)
    shown = eval(last, space)
    cell.outputs = [
        nbformat.v4.new_output("execute_result", {"text/html": shown._repr_html_(), "text/plain": repr(shown)})
    ]
