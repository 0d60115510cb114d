"""Run the weeks and cache their outputs; a week is executed again only when its page or the package changes."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from copy import deepcopy
from functools import cache
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.reading import stand_ins

CACHE = ROOT / "build" / "executed"
CELL_SECONDS = 300  # limit per cell; the longest trains for a minute on two busy cores
SHAPES_OUTPUTS = ("torch", "numpy", "matplotlib", "ipywidgets", "nbclient")
_IMPORTS_MINE = re.compile(r"^\s*(?:from|import) mine\b", re.MULTILINE)


def client_of(week: str, notebook: NotebookNode, *, cell_seconds: int = CELL_SECONDS) -> NotebookClient:
    """Return a client that executes a week's notebook in a fresh kernel, in the folder of its source."""
    folder = str(notebooks.source_path(week).parent)
    resources = {"metadata": {"path": folder}}
    quiet = ["--log-level=ERROR"]  # suppress a message about loopback ports per kernel
    return NotebookClient(
        notebook, timeout=cell_seconds, kernel_name="python3", resources=resources, extra_arguments=quiet
    )


def executed(week: str, *, folder: Path = CACHE) -> NotebookNode:
    """Return a week's notebook with solutions and outputs, executing it if it is not in the cache folder.

    Checks get no output: they test a student's answers, and the site has none.
    Raises ValueError that names the week and the error of a cell that raises.
    """
    notebook = notebooks.read_source(week)
    kept = folder / f"{week}-{key_of(notebook)}.ipynb"
    if not kept.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        for older in folder.glob(f"{week}-*.ipynb"):
            older.unlink(missing_ok=True)
        part = kept.with_suffix(f".{os.getpid()}.part")  # two builds may run at the same time
        nbformat.write(_execute(week, notebook), part)
        part.rename(kept)  # atomic: an interrupted build leaves no partial file
    return _with_outputs_of(nbformat.read(kept, 4), notebook)


def execute_all(
    weeks: Sequence[str],
    *,
    folder: Path = CACHE,
    side_by_side: int = 2,
    done: Callable[[str], None] = lambda week: None,
) -> dict[str, NotebookNode]:
    """Return {week: executed notebook}, running several in parallel; `done` is called after each.

    A week that fails is retried alone at the end, because its ranks have timeouts that a busy machine can exceed.
    Raises ValueError like `executed` if the second try fails too.
    """
    found: dict[str, NotebookNode] = {}
    with ThreadPoolExecutor(side_by_side) as pool:
        running = {pool.submit(executed, week, folder=folder): week for week in weeks}
        for one in as_completed(running):
            if one.exception() is None:
                found[running[one]] = one.result()
                done(running[one])
    for week in weeks:
        if week not in found:
            found[week] = executed(week, folder=folder)
            done(week)
    return {week: found[week] for week in weeks}


def key_of(notebook: NotebookNode) -> str:
    """Return a hash of what determines the outputs: the cells' code, shardlab, `mine` if imported, and versions."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    own = stand_ins.path_of().read_text() if any(_IMPORTS_MINE.search(source) for source in code) else ""
    versions = [f"{name} {version(name)}" for name in SHAPES_OUTPUTS]
    text = "\0".join([*code, own, _package_hash(), sys.version, *versions])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _package_hash() -> str:
    digest = hashlib.sha256()
    package = ROOT / "labs" / "shardlab"
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _execute(week: str, notebook: NotebookNode) -> NotebookNode:
    """Execute a notebook without calling its checks; assignments in check cells still run, as later cells use them."""
    running = deepcopy(notebook)
    for cell in running.cells:
        if _is_check(cell):
            cell.source = without_check(cell.source)
    try:
        client_of(week, running).execute(env=_with_our_commands(os.environ))
    except CellExecutionError as error:
        raise ValueError(f"{week} does not run from top to bottom: {error.ename}: {error.evalue}") from error
    for cell, before in zip(running.cells, notebook.cells, strict=True):
        cell.source = before.source
        cell.metadata.pop("execution", None)  # timestamps of this build
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = output.text.replace(f"{ROOT}/", "")  # hide where this machine stores the course
    return running


def _with_our_commands(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with our commands on PATH, as in `make lab`'s JupyterLab, so `!shardlab doctor` works."""
    return {**variables, "PATH": os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])}


def _with_outputs_of(ran: NotebookNode, notebook: NotebookNode) -> NotebookNode:
    """Add cached outputs to the current notebook; its prose may have changed since the code ran."""
    together = deepcopy(notebook)
    together.metadata["widgets"] = ran.metadata.get("widgets", {})
    code = [cell for cell in ran.cells if cell.cell_type == "code"]
    for cell, before in zip((one for one in together.cells if one.cell_type == "code"), code, strict=True):
        cell.outputs = before.outputs
    return together


def without_check(source: str) -> str:
    """Return the code of a check cell without its calls of `check`."""
    statements = ast.parse(source).body
    return ast.unparse(ast.Module([one for one in statements if not _calls_check(one)], []))


def _calls_check(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="check"))):
            return True
    return False


def _is_check(cell: NotebookNode) -> bool:
    marks = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "code" and bool(marks.get("grade")) and not marks.get("solution")
